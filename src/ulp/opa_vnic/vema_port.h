#pragma once

// The agent of virtual NICs at one OPA port (VEMA): an Ethernet Manager gets and sets attributes of
// its virtual ports, and is told of changes by traps (R-VN-3 to R-VN-14). Names are the seed's
// without `vema_`. Pure, not thread-safe.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "base/time.h"
#include "ulp/opa_vnic/device.h"
#include "ulp/opa_vnic/virtual_port.h"
#include "wire/opa/vema_mad.h"

namespace weft::opa_vnic {

struct AgentCounters {
  std::uint64_t requests{};
  std::uint64_t refused{};    ///< answered with a status
  std::uint64_t malformed{};  ///< of another length, class or OUI
  std::uint64_t traps{};
};

class VemaPort {
 public:
  VemaPort(Device& device, PortNumber number, const TrapLimits& limits)
      : device_(device), number_(number), limits_(limits) {}

  /// A MAD from the fabric. What it answers and sends goes to the device.
  void receive(const VemaPeer& from, ByteSpan mad, Instant now);
  /// Sends what traps are due.
  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// None: there is no virtual port with this number.
  [[nodiscard]] VirtualPort* find_vport(std::uint8_t number);
  [[nodiscard]] const std::map<std::uint8_t, VirtualPort>& vports() const { return vports_; }
  [[nodiscard]] std::map<std::uint8_t, VirtualPort>& vports() { return vports_; }
  void set_active(bool is_active, Instant now);
  /// The virtual port that belongs to this virtual switch.
  [[nodiscard]] VirtualPort* find_vesw(std::uint16_t vesw_id);
  void remove_vports();

  [[nodiscard]] const wire::OpaClassPortInfo& class_port_info() const { return class_port_info_; }
  [[nodiscard]] const AgentCounters& counters() const { return counters_; }

 private:
  /// What a request is about, and the answer as far as it is.
  struct Exchange {
    const wire::VemaMad& request;
    wire::VemaMad answer;
    Instant now;
  };
  using Handler = void (VemaPort::*)(Exchange&);
  struct Row;
  static const Row kAttributes[];

  [[nodiscard]] wire::VemaMad answer(const wire::VemaMad& request, Instant now);
  [[nodiscard]] Handler handler_of(const wire::VemaMad& request) const;
  [[nodiscard]] VirtualPort* add_vport(std::uint8_t number);
  void repress(const wire::VemaMad& mad);
  void send_trap(VirtualPort& vport, wire::VemaEvent event);

  void get_class_port_info(Exchange& exchange);
  void set_class_port_info(Exchange& exchange);
  void get_vesw_port_info(Exchange& exchange);
  void set_vesw_port_info(Exchange& exchange);
  void get_mac_entries(Exchange& exchange);
  void set_mac_entries(Exchange& exchange);
  void set_delete_vesw(Exchange& exchange);
  void get_mac_list(Exchange& exchange);
  void get_summary_counters(Exchange& exchange);
  void get_error_counters(Exchange& exchange);

  struct SentTrap {
    std::uint64_t transaction_id{};
    std::uint8_t vport{};
    wire::VemaEvent event{};
  };
  static constexpr std::size_t kMostSentTraps = 64;  // policy: what a late TrapRepress may answer

  Device& device_;
  PortNumber number_;
  TrapLimits limits_;
  wire::OpaClassPortInfo class_port_info_;
  std::map<std::uint8_t, VirtualPort> vports_;
  std::uint64_t next_transaction_{1};
  std::deque<SentTrap> sent_traps_;
  AgentCounters counters_;
};

}  // namespace weft::opa_vnic
