// attend.cuh for heads of 128 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(128, 16)
ATTEND(128, 32)
ATTEND(128, 64)
