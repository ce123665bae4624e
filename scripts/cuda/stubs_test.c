/* The stand-ins of gen_stubs.py, with a library to find (this file with -DLIBRARY) and without one. */
#include <stdio.h>
#include <string.h>

#ifdef LIBRARY

int cuInit(unsigned flags) { return 1000 + (int)flags; }

/* Seven integers (one on the stack) and, for the test alone, eight floats: all must arrive. */
int cuMemcpyPeerAsync(long a, long b, long c, long d, long e, long f, long g, double s, double t, double u,
                      double v, double w, double x, double y, double z) {
  const long whole = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g;
  const double parts = s + 2 * t + 3 * u + 4 * v + 5 * w + 6 * x + 7 * y + 8 * z;
  return whole == 140 && parts == 204.0 ? 7 : 8;
}

#else

int cuInit(unsigned flags);
int cuMemcpyPeerAsync(long a, long b, long c, long d, long e, long f, long g, double s, double t, double u,
                      double v, double w, double x, double y, double z);
int cuGetErrorString(int status, const char **text);
const char *cublasGetStatusString(int status);

static int failed;
static void same(const char *what, int got, int wanted) {
  if (got != wanted) failed = 1, fprintf(stderr, "%s: %d, not %d\n", what, got, wanted);
}

int main(int argc, char **argv) {
  const int found = argc > 1 && strcmp(argv[1], "found") == 0;
  for (int call = 0; call < 2; call++) { /* the first call looks the function up, the second one jumps */
    same("cuInit", cuInit(call), found ? 1000 + call : 100);
    same("cuMemcpyPeerAsync", cuMemcpyPeerAsync(1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 8), found ? 7 : 100);
  }
  const char *text = ""; /* the library above has no cuGetErrorString: a text all the same, not a wild pointer */
  same("cuGetErrorString", cuGetErrorString(100, &text), 0);
  same("its text", strstr(text, "libcuda.so.1") != NULL, 1);
  /* libcublas is in neither case there */
  same("cublasGetStatusString", strstr(cublasGetStatusString(0), "libcublas.so.13") != NULL, 1);
  return failed;
}

#endif
