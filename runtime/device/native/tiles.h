// Products of rows with tiles of weights, and the epilogue of these products.
//
// code2wav.cpp includes this file once for each instruction set. The namespace around it defines TARGET, the type
// `Vector` of WIDTH numbers with its operations, and the maximum number of rows for passes over four, two and one
// tiles. Each output is one chain of fused multiply-adds, so results are bitwise equal for all instruction sets.
// Weights and inputs of type `Pair` are two bfloat16 numbers of adjacent channels.

constexpr int PARTS = TILE / WIDTH;  // Number of vectors of a tile.

// SnakeBeta: x + gain * sin(x * alpha)^2. Pi is the sum of two constants.
TARGET inline Vector snake(Vector x, Vector alpha, Vector gain) {
  const Vector angle = multiply(x, alpha), whole = nearest(multiply(angle, all(0.318309886f)));
  Vector rest = fuse(whole, all(-3.14159274f), angle);
  rest = fuse(whole, all(8.74227766e-8f), rest);
  rest = least(all(2.0f), most(all(-2.0f), rest));  // Huge angles have no fraction. NaN stays NaN.
  const Vector square = multiply(rest, rest);
  Vector sum = fuse(square, all(2.60831598e-6f), all(-1.98106907e-4f));  // Coefficients of SLEEF.
  sum = fuse(square, sum, all(8.33307859e-3f));
  sum = fuse(square, sum, all(-1.66666597e-1f));
  const Vector sine = fuse(multiply(square, rest), sum, rest);
  return fuse(multiply(sine, sine), gain, x);
}

TARGET inline void finish_vector(const float* sum, const Finish& finish, int64_t n, const float* residual, float* plain,
                                 float* active) {
  Vector value = load(sum);
  if (finish.bias) value = add(value, load(finish.bias + n));
  if (finish.scale) value = multiply(value, load(finish.scale + n));
  if (residual) value = add(value, load(residual));
  if (plain) store(plain, value);
  if (active) store(active, snake(value, load(finish.snake.alpha + n), load(finish.snake.gain + n)));
}

// Write `count` outputs of a row, starting at output n.
TARGET inline void finish_row(const float* sums, const Finish& finish, int64_t row, int64_t n, int64_t count) {
  const float* residual = finish.residual.at(row, n);
  float *plain = finish.plain.at(row, n), *active = finish.active.at(row, n);
  int64_t at = 0;
  for (; at + WIDTH <= count; at += WIDTH)
    finish_vector(sums + at, finish, n + at, residual ? residual + at : nullptr, plain ? plain + at : nullptr,
                  active ? active + at : nullptr);
  if (at == count) return;
  float parts[3][WIDTH] = {};
  const int64_t bytes = (count - at) * sizeof(float);
  if (residual) std::memcpy(parts[0], residual + at, bytes);
  finish_vector(sums + at, finish, n + at, residual ? parts[0] : nullptr, parts[1], active ? parts[2] : nullptr);
  if (plain) std::memcpy(plain + at, parts[1], bytes);
  if (active) std::memcpy(active + at, parts[2], bytes);
}

// Multiply R rows with G tiles. sums: [R, G * TILE].
template <int R, int G, typename Weight, typename Input>
TARGET void multiply_pass(const Weight* tiles, const Taps& taps, const Input* x, int64_t stride, float* sums) {
  Vector total[R][G * PARTS];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < G * PARTS; ++v) total[r][v] = all(0.0f);
  const int64_t C = taps.inputs(), size = taps.taps * C * TILE;
  for (int64_t tap = 0; tap < taps.taps; ++tap, x += taps.dilation * C)
    for (int64_t c = 0; c < C; ++c, tiles += TILE) {
      decltype(load(tiles)) weight[G * PARTS];
      for (int v = 0; v < G * PARTS; ++v) weight[v] = load(tiles + v / PARTS * size + v % PARTS * WIDTH);
      for (int r = 0; r < R; ++r) {
        const auto input = all(x[r * stride + c]);
        for (int v = 0; v < G * PARTS; ++v) total[r][v] = fuse(weight[v], input, total[r][v]);
      }
    }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < G * PARTS; ++v) store(sums + (r * G * PARTS + v) * WIDTH, total[r][v]);
}

template <int R, int G, typename Weight, typename Input>
TARGET void multiply_pass(int64_t rows, const Weight* tiles, const Taps& taps, const Input* x, int64_t stride,
                          float* sums) {
  if constexpr (R > 1)
    if (rows < R) return multiply_pass<R - 1, G>(rows, tiles, taps, x, stride, sums);
  multiply_pass<R, G>(tiles, taps, x, stride, sums);
}

// Multiply rows with the tiles from `tile` to `end`, R rows and G tiles at a time.
template <int R, int G, typename Weight, typename Input>
TARGET int64_t multiply_groups(const Taps& taps, const Input* x, int64_t stride, int64_t rows, const Finish& finish,
                               int64_t tile, int64_t end) {
  float sums[R * G * TILE];
  const int64_t size = taps.taps * taps.inputs() * TILE;
  for (; tile + G <= end; tile += G) {
    const auto* weight = static_cast<const Weight*>(taps.tiles) + tile * size;
    const int64_t passes = (rows + R - 1) / R;
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t row = rows * pass / passes, count = rows * (pass + 1) / passes - row;
      multiply_pass<R, G>(count, weight, taps, x + row * stride, stride, sums);
      for (int64_t r = 0; r < count; ++r)
        finish_row(sums + r * G * TILE, finish, row + r, tile * TILE,
                   std::min<int64_t>(G * TILE, taps.N - tile * TILE));
    }
  }
  return tile;
}

template <typename Weight, typename Input>
TARGET void multiply_rows(const Taps& taps, const Input* x, int64_t stride, int64_t rows, const Finish& finish,
                          int64_t tile, int64_t end) {
  if (rows <= ROWS_OF_FOUR) tile = multiply_groups<ROWS_OF_FOUR, 4, Weight>(taps, x, stride, rows, finish, tile, end);
  if (rows <= ROWS_OF_TWO || ROWS_OF_TWO >= ROWS_OF_ONE)
    tile = multiply_groups<ROWS_OF_TWO, 2, Weight>(taps, x, stride, rows, finish, tile, end);
  multiply_groups<ROWS_OF_ONE, 1, Weight>(taps, x, stride, rows, finish, tile, end);
}

TARGET void multiply_rows(const Taps& taps, const float* x, int64_t stride, int64_t rows, const Finish& finish,
                          int64_t tile, int64_t end) {
  if (taps.kind == FLOAT16)
    multiply_rows<uint16_t>(taps, x, stride, rows, finish, tile, end);
  else
    multiply_rows<float>(taps, x, stride, rows, finish, tile, end);
}
