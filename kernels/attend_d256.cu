// attend.cuh for heads of 256 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(256, 16)
ATTEND(256, 32)
