#pragma once

// Attributes of a QP as processes write them to each other when one has another's target QP open
// (ibv_open_qp(3)).

#include <cstdint>

#include "base/result.h"
#include "hca/types.h"
#include "uabi/messages.h"

namespace weft::host {

/// `mask`: which of them a Modify is about; 0 in an answer.
[[nodiscard]] uabi::RdmaCmQpAttributes to_words(const hca::QpAttributes& in, std::uint32_t mask);

/// Foreign: what no sender of ours says is refused before it becomes a type that cannot say it.
[[nodiscard]] Result<hca::QpAttributes> from_words(const uabi::RdmaCmQpAttributes& in,
                                                   std::uint8_t current_state);

}  // namespace weft::host
