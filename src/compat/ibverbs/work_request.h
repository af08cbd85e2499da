#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "compat/ibverbs/abi.h"
#include "compat/ibverbs/objects.h"
#include "hca/types.h"

namespace weft::compat {

static_assert(sizeof(ibv_sge) == sizeof(hca::Sge) &&
              offsetof(ibv_sge, addr) == offsetof(hca::Sge, address) &&
              offsetof(ibv_sge, length) == offsetof(hca::Sge, length) &&
              offsetof(ibv_sge, lkey) == offsetof(hca::Sge, lkey));

/// A scatter/gather list in place, since both types have the same layout. A negative count means 0.
[[nodiscard]] inline std::span<const hca::Sge> sges_of(const ibv_sge* list, int count) {
  return {reinterpret_cast<const hca::Sge*>(list), static_cast<std::size_t>(std::max(count, 0))};
}

/// Passes each receive of a list to `post(const hca::RecvWr&)`, up to the first that is refused.
template <class Post>
[[nodiscard]] int post_each(ibv_recv_wr* wr, ibv_recv_wr** bad_wr, Post post) {
  for (; wr != nullptr; wr = wr->next) {
    const auto posted = post({.wr_id = wr->wr_id, .sges = sges_of(wr->sg_list, wr->num_sge)});
    if (!posted) {
      *bad_wr = wr;
      return refuse(posted.error());
    }
  }
  return 0;
}

/// The binding requested by a work request for a window of type 2.
[[nodiscard]] Result<hca::WindowBinding> to_engine(const ibv_mw& mw, std::uint32_t rkey,
                                                   const ibv_mw_bind_info& info);

}  // namespace weft::compat
