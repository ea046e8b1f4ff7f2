/* Runs the examples of docs/c-interface.md, which are put before this, on the emulator. */

#include <math.h>
#include <stdlib.h>

enum { MATRICES = 2, TOKENS = 3, ELEMENTS = 8 };

#define CHECK(condition)                                                                           \
    if (!(condition)) {                                                                            \
        fprintf(stderr, "line %d: not %s: %s\n", __LINE__, #condition, fa_last_error_message());   \
        exit(1);                                                                                   \
    }

/* Scores that are all 0: each token gets the mean of the values up to its own. */
static void check_attention(const fa_device *device)
{
    /* The numbers 0, 1 and 2, and their means, as f16. */
    static const unsigned short values[TOKENS] = {0, 0x3c00, 0x4000};
    static const unsigned short means[TOKENS] = {0, 0x3800, 0x3c00};
    void *qkv_memory = NULL, *o_memory = NULL;
    size_t bytes = TOKENS * ELEMENTS * sizeof(unsigned short);
    CHECK(fa_emulator_allocate(device, 3 * bytes, &qkv_memory) == FA_STATUS_SUCCESS);
    CHECK(fa_emulator_allocate(device, bytes, &o_memory) == FA_STATUS_SUCCESS);
    unsigned short *qkv = qkv_memory, *o = o_memory;
    for (int i = 0; i < TOKENS * 3 * ELEMENTS; i++) {
        int part = i / ELEMENTS % 3;
        qkv[i] = part == 2 ? values[i / ELEMENTS / 3] : 0;
    }
    CHECK(causal_attention(device, qkv, o, 1, TOKENS, 1, ELEMENTS, NULL) == FA_STATUS_SUCCESS);
    for (int i = 0; i < TOKENS * ELEMENTS; i++) {
        CHECK(o[i] == means[i / ELEMENTS]);
    }
    fa_emulator_free(qkv);
    fa_emulator_free(o);
}

int main(void)
{
    fa_device *device = NULL;
    CHECK(fa_device_create_emulator(&device) == FA_STATUS_SUCCESS);
    size_t bytes = MATRICES * TOKENS * TOKENS * sizeof(float);
    void *x_memory = NULL, *y_memory = NULL;
    CHECK(fa_emulator_allocate(device, bytes, &x_memory) == FA_STATUS_SUCCESS);
    CHECK(fa_emulator_allocate(device, bytes, &y_memory) == FA_STATUS_SUCCESS);
    float *x = x_memory, *y = y_memory;
    for (int i = 0; i < MATRICES * TOKENS * TOKENS; i++) {
        x[i] = (float)(i * 7 % 5);
    }
    CHECK(causal_softmax(device, x, y, MATRICES, TOKENS, NULL));
    for (int row = 0; row < MATRICES * TOKENS; row++) {
        int visible = row % TOKENS + 1;
        double sum = 0;
        for (int j = 0; j < visible; j++) {
            sum += exp(0.125 * x[row * TOKENS + j]);
        }
        for (int j = 0; j < TOKENS; j++) {
            double expected = j < visible ? exp(0.125 * x[row * TOKENS + j]) / sum : 0;
            CHECK(fabs(y[row * TOKENS + j] - expected) < 1e-6);
        }
    }
    check_attention(device);
    /* In place is refused, and y left as it is. */
    CHECK(!causal_softmax(device, y, y, MATRICES, TOKENS, NULL));
    fa_emulator_free(x);
    fa_emulator_free(y);
    fa_device_destroy(device);
    puts("right");
    return 0;
}
