// attend.cuh for heads of 16 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(16, 16)
ATTEND(16, 32)
ATTEND(16, 64)
