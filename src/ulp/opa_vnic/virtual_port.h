#pragma once

// A port of a virtual Ethernet switch on an OPA port: what the Ethernet Manager sets, what the
// interface (a TAP, say) tells, and the data path between both (R-VN-7 to R-VN-11, R-VN-15 to
// R-VN-19). Pure; one thread at a time, but for a MAC table that a reader holds: it never changes.

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "ulp/opa_vnic/counters.h"
#include "ulp/opa_vnic/dlid.h"
#include "ulp/opa_vnic/frame.h"
#include "ulp/opa_vnic/mac_list.h"
#include "ulp/opa_vnic/mac_table.h"
#include "ulp/opa_vnic/trap_pacer.h"
#include "wire/opa/packet_16b.h"
#include "wire/opa/vema_mad.h"
#include "wire/opa/vesw_port_info.h"

namespace weft::opa_vnic {

inline constexpr std::uint16_t kDefaultEthMtu = 1500;
inline constexpr std::uint16_t kMaxEthMtu = 10'238;  ///< of an OPA link with 10 KiB packets

/// Values at power-on (R-VN-7), but for the link status, which says whether there is a port.
[[nodiscard]] wire::VeswPortInfo power_on_info(wire::EthLinkStatus link);

inline constexpr unsigned kMaxVportNumbers = 255;  ///< of an OPA port: 0 to 254

/// Where a virtual port is.
struct VirtualPortName {
  PortNumber opa_port{};
  std::uint8_t number{};
  friend constexpr auto operator<=>(const VirtualPortName&, const VirtualPortName&) = default;
};

class VirtualPort {
 public:
  struct Sent {
    std::vector<std::byte> packet;
    std::uint8_t vl{};
  };
  /// `hardware_mac` is the interface's address as long as the manager has assigned none.
  VirtualPort(const VirtualPortName& name, const wire::MacAddress& hardware_mac,
              const TrapLimits& limits = {});

  [[nodiscard]] const VirtualPortName& name() const { return name_; }

  // --- The manager's side.

  /// As a Get of VeswPortInfo reports it.
  [[nodiscard]] wire::VeswPortInfo info() const;
  /// A Set: what is read-only stays, what is reserved is stored. opa_vnic_set_vesw_info,
  /// opa_vnic_set_per_veswport_info.
  void set_info(const wire::VeswPortInfo& wanted, Instant now);
  /// Back to power-on values, without a MAC table. The interface keeps its address.
  void reset(Instant now);
  /// Fails for too many sources; the table stays.
  [[nodiscard]] Result<void> set_mac_block(const wire::MacTableBlock& block);
  [[nodiscard]] const MacTable& mac_table() const { return *mac_table_; }
  [[nodiscard]] wire::MacList unicast_macs(std::uint16_t start, std::uint16_t count) const;
  [[nodiscard]] wire::MacList multicast_macs(std::uint16_t start, std::uint16_t count) const;
  /// With their heads.
  [[nodiscard]] wire::VeswPortSummaryCounters summary_counters() const;
  [[nodiscard]] wire::VeswPortErrorCounters error_counters() const;
  void clear_counters() { counters_.clear(); }

  // --- The interface's side.

  void set_interface_up(bool is_up, Instant now);
  /// The state of the OPA port: PORT_ACTIVE or PORT_ERR.
  void set_port_active(bool is_active, Instant now);
  void set_unicast_macs(std::vector<wire::MacAddress> macs, Instant now);
  void set_multicast_macs(std::vector<wire::MacAddress> macs, Instant now);
  /// A promiscuous interface, such as a bridge's, takes frames for any station.
  void set_promiscuous(bool is_promiscuous) { is_promiscuous_ = is_promiscuous; }
  /// At most the switch's MTU counts.
  void set_mtu(std::uint16_t mtu) { wanted_mtu_ = mtu; }

  [[nodiscard]] std::uint16_t mtu() const;
  [[nodiscard]] wire::MacAddress mac() const { return mac_; }
  [[nodiscard]] bool is_forwarding() const;
  /// The interface may send: the OPA port is active and the manager has configured forwarding.
  [[nodiscard]] bool has_carrier() const;

  // --- The data path.

  /// A frame of the interface, without FCS.
  [[nodiscard]] std::expected<Sent, TxDrop> transmit(ByteSpan frame);
  /// A packet of this virtual switch. The frame, as part of the packet, for the interface.
  [[nodiscard]] std::expected<ByteSpan, RxDrop> receive(const wire::OpaEthernetPacket& packet);
  /// A packet that did not get as far as receive().
  void count(RxDrop drop) { counters_.count(drop); }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] TrapPacer& traps() { return traps_; }
  [[nodiscard]] const TrapPacer& traps() const { return traps_; }
  [[nodiscard]] wire::VeswPortTrap trap(wire::VemaEvent event) const;

 private:
  [[nodiscard]] std::expected<Sent, TxDrop> form_packet(ByteSpan frame);
  [[nodiscard]] std::optional<RxDrop> check(const wire::OpaEthernetPacket& packet,
                                            const std::optional<FrameFacts>& facts) const;
  [[nodiscard]] bool is_for_interface(const wire::MacAddress& destination) const;
  [[nodiscard]] std::size_t max_frame_bytes() const;
  void apply(Instant now);

  VirtualPortName name_;
  wire::MacAddress mac_;
  wire::VeswPortInfo info_;
  FlowTable flows_{};
  std::shared_ptr<const MacTable> mac_table_;
  InterfaceMacs unicast_macs_;
  InterfaceMacs multicast_macs_;
  Counters counters_;
  TrapPacer traps_;
  std::uint16_t wanted_mtu_{kMaxEthMtu};
  bool is_interface_up_{};
  bool is_port_active_{true};
  bool is_promiscuous_{};
};

}  // namespace weft::opa_vnic
