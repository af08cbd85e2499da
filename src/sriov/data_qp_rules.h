#pragma once

// What data QPs of virtual functions may not have: the well-known Q_Key of QP1, but for functions
// that are trusted, and VL15. Functions without state.

#include <optional>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "sriov/decision.h"
#include "sriov/types.h"

namespace weft::sriov {

/// For modify QP. InvalidArgument (EINVAL): the Q_Key is the well-known one, and the function is
/// not trusted with it.
[[nodiscard]] Result<void> check_data_qkey(FunctionId function, bool is_trusted, QKey qkey);

/// For each datagram: the reason why it is dropped, if any. `lane` is what its SL maps to.
[[nodiscard]] std::optional<Reason> check_data_send(FunctionId function, QKey qkey,
                                                    VirtualLane lane);

}  // namespace weft::sriov
