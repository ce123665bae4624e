// attend.cuh for heads of 32 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(32, 16)
ATTEND(32, 32)
ATTEND(32, 64)
