// attend.cuh for heads of 512 dimensions: formula, shapes, launch geometry and reference test stand there.
#include "attend.cuh"

ATTEND(512, 16)
ATTEND(512, 32)
