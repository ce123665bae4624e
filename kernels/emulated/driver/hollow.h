// What a hollow device does in a kernel's place (TRIBUNAL_EMULATED_HOLLOW).
#pragma once
#include "../registry.h"

namespace host {

// Nothing, but `tail` answers: a token that is allowed, by the want's draw, or the one to weigh. So a run has answers,
// and what the host does for a step can be timed. Not what any model says.
void run_hollow(const Kernel& kernel, void* const* arguments);

}  // namespace host
