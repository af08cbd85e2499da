#pragma once

// Names of initiators in lists of who may log in (R-SRPT-21). Pure.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "wire/srp/srp_codes.h"

namespace weft::srp {

/// srpt_parse_i_port_id: an optional "0x", then an even number of hexadecimal digits, up to 32;
/// fewer stand for the last octets, with zeroes before them. Else InvalidArgument.
[[nodiscard]] Result<wire::SrpPortId> parse_port_id(std::string_view name);
/// "0x" and 32 digits.
[[nodiscard]] std::string to_string(const wire::SrpPortId& id);
/// Either end's identifier as targets of revision 10 (I/O class 0xFF00) have it: the GUID first,
/// then the extension (R-SRPI-3).
[[nodiscard]] wire::SrpPortId with_halves_swapped(const wire::SrpPortId& id);

/// Who may log in: an initiator port identifier, the GUID of a port ("0002:c903:0000:abcd"), or an
/// IP address.
using AccessName = std::variant<wire::SrpPortId, Guid, IpAddress>;

[[nodiscard]] Result<AccessName> parse_access_name(std::string_view name);

/// Who logs in, as far as the CM knows.
struct Initiator {
  wire::SrpPortId port_id{};
  std::optional<Gid> gid{};
  std::optional<IpAddress> ip{};
};

[[nodiscard]] bool matches(const AccessName& name, const Initiator& initiator);

/// The list of a port. Empty: nobody may log in, unless anybody may.
class AccessList {
 public:
  void allow_anybody(bool anybody) { anybody_ = anybody; }
  /// Exists if it is on the list.
  Result<void> allow(const AccessName& name);
  /// NotFound.
  Result<void> withdraw(const AccessName& name);
  [[nodiscard]] bool allows(const Initiator& initiator) const;

 private:
  bool anybody_{};
  std::vector<AccessName> names_;
};

}  // namespace weft::srp
