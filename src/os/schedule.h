#pragma once

namespace weft::os {

/// Asks that this thread run soon after it is woken, even where others compute: it works for
/// microseconds at a time. A wish (Linux 6.12 and later know it); whatever happens, the thread
/// runs.
void request_prompt_scheduling();

}  // namespace weft::os
