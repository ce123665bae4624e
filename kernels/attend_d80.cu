// attend.cuh for heads of 80 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(80, 16)
ATTEND(80, 32)
ATTEND(80, 64)
