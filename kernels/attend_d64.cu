// attend.cuh for heads of 64 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(64, 16)
ATTEND(64, 32)
ATTEND(64, 64)
