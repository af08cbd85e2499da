#pragma once

// Events and paths of src/cm as include/rdma/ib_cm.h has them, and back.

#include <rdma/ib_cm.h>

#include <cstddef>

#include "base/bytes.h"
#include "cm/events.h"
#include "cm/types.h"

namespace weft::kernel {

[[nodiscard]] cm::Path cm_path_of(const sa_path_rec& from);
[[nodiscard]] sa_path_rec to_c(const cm::Path& from);

[[nodiscard]] inline ByteSpan bytes_at(const void* start, std::size_t length) {
  return start != nullptr ? ByteSpan{static_cast<const std::byte*>(start), length} : ByteSpan{};
}

/// An event in C, and what it points to.
struct CmEventFace {
  /// `listener` and `device` are what a request that came names.
  CmEventFace(const cm::CmEvent& from, ib_cm_id& listener, ib_device* device, PortNumber port);
  CmEventFace(const CmEventFace&) = delete;
  CmEventFace& operator=(const CmEventFace&) = delete;

  ib_cm_event event{};

 private:
  void fill(const cm::ReqReceived& from, ib_cm_id& listener, ib_device* device, PortNumber port);
  void fill(const cm::RepReceived& from);

  cm::CmEvent kept_;
  sa_path_rec primary_{};
  sa_path_rec alternate_{};
};

}  // namespace weft::kernel
