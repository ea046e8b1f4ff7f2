//! Lines over lengths of rows or sequences, as SVG, and that as PNG.

use anyhow::{Context, Result, anyhow};
use plotters::{prelude::*, style::register_font};
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};
use std::sync::{Arc, Once};

/// Lines over lengths.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    /// The file's name, without an extension.
    pub name: String,
    pub title: String,
    pub x_label: &'static str,
    pub y_label: &'static str,
    /// The top of the axis that begins at 0.
    pub y_most: f64,
    pub lines: Vec<Line>,
}

/// A line: values by numbers of columns.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub name: String,
    pub points: Vec<(u64, f64)>,
}

const SIZE: (u32, u32) = (860, 460);

/// Pixels of a PNG for each unit of an SVG.
const SCALE: f32 = 2.0;

/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// The font that labels are measured and, in PNGs, drawn with.
fn font() -> &'static [u8] {
    dejavu::sans::regular()
}

impl Plot {
    /// The plot as SVG.
    pub fn svg(&self) -> Result<String> {
        static FONT: Once = Once::new();
        FONT.call_once(|| {
            let registered = register_font("sans-serif", FontStyle::Normal, font());
            assert!(registered.is_ok(), "the font of the crate dejavu is one");
        });
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())
            .map_err(|error| anyhow!("cannot draw {}: {error}", self.name))?;
        Ok(svg)
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        area.fill(&WHITE)?;
        let columns = || self.lines.iter().flat_map(|line| &line.points).map(|&(x, _)| x as f64);
        let least = columns().fold(f64::INFINITY, f64::min);
        let most = columns().fold(least, f64::max);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(14)
            .margin_right(40)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d((least..most * 1.001).log_scale().base(2.0), 0.0..self.y_most)?;
        chart
            .configure_mesh()
            .x_desc(self.x_label)
            .y_desc(self.y_label)
            .x_labels(16)
            .x_label_formatter(&|columns| format!("{columns:.0}"))
            .y_label_formatter(&|y| match self.y_most {
                most if most > 20.0 => format!("{y:.0}"),
                _ => format!("{y:.1}"),
            })
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 15))
            .bold_line_style(BLACK.mix(0.15))
            .light_line_style(BLACK.mix(0.0))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS.into_iter().cycle()) {
            let points = || line.points.iter().map(|&(x, y)| (x as f64, y));
            chart
                .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
                .label(&line.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(2))
                });
            chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerLeft)
            .margin(14)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()?;
        area.present()
    }
}

/// An SVG drawn as PNG.
pub(super) fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = Database::new();
    fonts.load_font_data(font().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).context("an SVG of plotters")?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("a size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).context("a size")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().context("a PNG")
}
