//! A PTX module's top-level statements.

/// A module, in the parts that entries need.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    /// `.version`, `.target` and `.address_size`.
    pub(crate) header: Vec<String>,
    /// Shared memory declared outside entries: name and statement.
    pub(crate) shared: Vec<(String, String)>,
    /// Names of the data in global and constant memory.
    pub(crate) data: Vec<String>,
    /// The entries.
    pub(crate) entries: Vec<Entry>,
}

/// An entry, without comments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// From `.visible .entry` to the parameter list's end.
    pub(crate) signature: String,
    /// From `{` to `}`.
    pub(crate) body: String,
}

impl Module {
    /// Reads a module as LLVM writes it.
    pub(crate) fn parse(text: &str) -> Self {
        let text = without_comments(text);
        let mut module = Module::default();
        for statement in statements(&text) {
            let words = || statement.split_whitespace();
            if let ".version" | ".target" | ".address_size" = words().next().unwrap_or_default() {
                module.header.push(statement.to_owned());
            } else if words().any(|word| word == ".entry") {
                module.entries.extend(Entry::parse(statement));
            } else if words().any(|word| word == ".shared") {
                module.shared.extend(declared(statement).map(|name| (name, statement.to_owned())));
            } else if words().any(|word| matches!(word, ".global" | ".const")) {
                module.data.extend(declared(statement));
            }
        }
        module
    }
}

impl Entry {
    fn parse(statement: &str) -> Option<Self> {
        let (signature, body) = statement.split_at(statement.find('{')?);
        let (_, after) = signature.split_once(".entry")?;
        let name = after.trim_start().split(|c: char| !is_name(c)).next()?;
        Some(Entry {
            name: name.to_owned(),
            signature: signature.trim_end().to_owned(),
            body: body.to_owned(),
        })
    }
}

/// Characters of PTX names, registers, labels, opcodes and directives.
pub(crate) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

/// The name that a declaration like `.extern .shared .align 16 .b8 name[];` declares.
fn declared(statement: &str) -> Option<String> {
    let head = statement.split(['=', ';', '[']).next()?;
    head.split_whitespace().last().map(str::to_owned)
}

/// Removes comments and the blank space and lines they leave.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let code = line.find("//").map_or(line, |at| &line[..at]).trim_end();
        if !code.is_empty() {
            kept.push_str(code);
            kept.push('\n');
        }
    }
    kept
}

/// Cuts a module into statements: a directive of the header is a line, a function ends with its
/// body, anything else with a semicolon.
fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut depth, mut in_string) = (0, 0_usize, false);
    for (at, c) in text.char_indices() {
        let statement = text[start..at].trim_start();
        let ended = match c {
            '"' => {
                in_string = !in_string;
                false
            }
            _ if in_string => false,
            '{' | '(' => {
                depth += 1;
                false
            }
            ')' => {
                depth = depth.saturating_sub(1);
                false
            }
            '}' => {
                depth = depth.saturating_sub(1);
                depth == 0 && is_function(statement)
            }
            ';' => depth == 0,
            '\n' => depth == 0 && is_header(statement),
            _ => false,
        };
        if ended {
            found.push(text[start..at + c.len_utf8()].trim());
            start = at + c.len_utf8();
        }
    }
    found
}

fn is_header(statement: &str) -> bool {
    [".version", ".target", ".address_size"].iter().any(|word| statement.starts_with(word))
}

fn is_function(statement: &str) -> bool {
    let head = statement.split('{').next().unwrap_or_default();
    head.contains(".entry") || head.contains(".func")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_ptx_ends_them() {
        let text = ".version 7.4\n.target sm_70\n.extern .shared .align 16 .b8 s[];\n\
                    .global .align 4 .b8 t[2] = {1, 2};\n\
                    .func f\n()\n.noreturn;\n.func g()\n{\n\tret;\n}\n\
                    .visible .entry k(\n\t.param .u32 k_param_0\n)\n{\n\t{ mov.u32 %r1, 1; }\n\
                    \t.pragma \"no}unroll\";\n\tret;\n}\n";
        let found = statements(text);
        let starts = found.iter().map(|s| s.split_whitespace().next().unwrap());
        let expected = [".version", ".target", ".extern", ".global", ".func", ".func", ".visible"];
        assert_eq!(starts.collect::<Vec<_>>(), expected);
        assert!(found[6].ends_with("ret;\n}"), "{}", found[6]);
    }

    #[test]
    fn a_module_is_read_into_its_parts() {
        let text = "//\n// Generated by LLVM\n//\n\n.version 7.4\n.target sm_70\n.address_size 64\n\
                    .extern .shared .align 1024 .b8 dynamic[];\n.const .f32 c = 1;\n\
                    .visible .global .align 1 .b8 text[3] = {1, 2, 3};\n\
                    \t// .globl k\n.visible .entry k()\n{ // a body\n\tret;\n\n}\n";
        let module = Module::parse(text);
        assert_eq!(module.header, [".version 7.4", ".target sm_70", ".address_size 64"]);
        let statement = ".extern .shared .align 1024 .b8 dynamic[];";
        assert_eq!(module.shared, [("dynamic".to_owned(), statement.to_owned())]);
        assert_eq!(module.data, ["c", "text"]);
        let [entry] = &module.entries[..] else { panic!("{:?}", module.entries) };
        assert_eq!((entry.name.as_str(), entry.signature.as_str()), ("k", ".visible .entry k()"));
        assert_eq!(entry.body, "{\n\tret;\n}");
    }
}
