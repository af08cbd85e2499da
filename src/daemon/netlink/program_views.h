#pragma once

// What programs say that they hold, as the kernel's view of their host has it. What a program says
// is foreign: numbers that mean nothing are left out.

#include <cstdint>
#include <optional>

#include "cm/rdma/types.h"
#include "host_view/host_view.h"
#include "uabi/held_object_messages.h"

namespace weft::daemon {

/// A number that a process gave to an object of its own, as its host's: processes of a host have
/// different slots. 0 stays none.
[[nodiscard]] constexpr std::uint32_t number_on_host(std::uint32_t slot, std::uint32_t number) {
  constexpr unsigned kBits = 20;  // more objects of one kind than a process may have
  return number == 0 ? 0 : slot << kBits | (number & ((1U << kBits) - 1));
}

/// Adds part of what a process with that slot holds on one HCA.
void add_held(const uabi::ObjectsHeld& part, std::uint32_t slot, host_view::ProgramView& view);

/// An RDMA-CM id, with its number on the host.
[[nodiscard]] host_view::CmIdView view_of(std::uint32_t number, const cm::RdmaCmIdInfo& info);

}  // namespace weft::daemon
