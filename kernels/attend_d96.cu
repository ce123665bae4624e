// attend.cuh for heads of 96 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(96, 16)
ATTEND(96, 32)
ATTEND(96, 64)
