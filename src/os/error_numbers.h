#pragma once

#include "base/result.h"

namespace weft::os {

/// The errno by which a program is told of a failure.
[[nodiscard]] int error_number_of(ErrorCode code);

}  // namespace weft::os
