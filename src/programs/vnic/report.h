#pragma once

// What `weft vnic show` and `weft em show` print of virtual ports, as text or as JSON. Pure.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "programs/net/report.h"
#include "programs/vnic/opa_port.h"
#include "wire/mac_address.h"
#include "wire/opa/vesw_port_counters.h"

namespace weft::programs::vnic {

struct VnicView {
  std::string name;
  bool is_up{};
  std::uint32_t mtu{};
  wire::MacAddress mac{};
  std::uint16_t fabric_id{};
  std::uint16_t vesw_id{};  ///< 0: of no virtual switch
  wire::VeswPortSummaryCounters summary{};
  wire::VeswPortErrorCounters errors{};
  std::uint64_t not_for_us{};
  std::uint64_t lost{};
};

struct PortView {
  bool is_omni_path{};
  Lid lid{};
  bool is_announced{};
  Qpn mad_qp{};
  Qpn packet_qp{};
  OpaPortCounters counters{};
};

[[nodiscard]] std::string mac_text(const wire::MacAddress& mac);
/// The counters of a virtual port (R-VN-19) by name.
[[nodiscard]] std::vector<net::NamedCount> named(const wire::VeswPortSummaryCounters& summary);
[[nodiscard]] std::vector<net::NamedCount> named(const wire::VeswPortErrorCounters& errors);
[[nodiscard]] std::vector<net::NamedCount> named(const OpaPortCounters& counters);
/// `{"a": 1, ...}`, without a line's end.
[[nodiscard]] std::string json_of(std::span<const net::NamedCount> counts);

[[nodiscard]] std::string show_vnics(const PortView& port, std::span<const VnicView> vnics,
                                     bool is_json);

}  // namespace weft::programs::vnic
