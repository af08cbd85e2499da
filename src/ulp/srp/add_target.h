#pragma once

// The line that logs an initiator in: what srp_daemon and administrators write into the file
// add_target of a port, in the words of Linux's ib_srp
// (Documentation/ABI/stable/sysfs-driver-ib_srp there). Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "wire/srp/srp_codes.h"

namespace weft::srp {

/// A target by the three names that the IB CM needs, or by an address of RDMA-CM.
struct AddTarget {
  std::uint64_t id_ext{};
  Guid ioc_guid{};
  Gid destination_gid{};
  PKey pkey{};
  std::uint64_t service_id{};
  std::string destination{};  ///< HOST:PORT instead of the three; empty: there is none
  std::uint64_t initiator_ext{};
  bool is_revision_10{};  ///< io_class ff00
  bool operator==(const AddTarget&) const = default;

  /// As the login names the target: revision 10 has the halves the other way round, as it has those
  /// of the initiator.
  [[nodiscard]] wire::SrpPortId target_port_id() const;
  /// Whether both lead to one target port by one initiator, so that a second login would end the
  /// first.
  [[nodiscard]] bool is_same_session(const AddTarget& other) const;
};

/// NAME=VALUE with commas between. InvalidArgument: an unknown name, a value of another form, or a
/// target that is not whole; the reason says which. Names that only tune Linux's queues are checked
/// and have no effect.
[[nodiscard]] Result<AddTarget> parse_add_target(std::string_view line);

}  // namespace weft::srp
