#pragma once

// A simulated Omni-Path fabric for tests: hosts with virtual NICs, an Ethernet Manager, and a
// network that loses and delays, in virtual time. A checker knows every frame.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ulp/opa_vnic/control_port.h"
#include "ulp/opa_vnic/manager/ethernet_manager.h"
#include "ulp/opa_vnic/planted_bug.h"
#include "ulp/opa_vnic/testing_device.h"
#include "ulp/opa_vnic/testing_frames.h"

namespace weft::opa_vnic::testing {

inline constexpr std::uint32_t kMulticastDlid = 0xF00001;
inline constexpr std::uint32_t kManagerLid = 0x999;
inline constexpr Duration kLongInterval = Duration::seconds(100'000);

struct FabricOptions {
  unsigned hosts{4};
  unsigned mad_loss{};   ///< percent
  unsigned data_loss{};  ///< percent
  std::int64_t most_delay_us{50'000};
  /// Between a manager's looks: long, where it has to learn by traps.
  Duration interval{Duration::seconds(20)};
};

class Fabric {
 public:
  class Host final : public FakeDevice {
   public:
    Host(Fabric& fabric, std::uint32_t lid) : fabric_(fabric), lid_(lid) {}
    void send_mad(PortNumber /*port*/, const VemaPeer& to, std::vector<std::byte> mad) override {
      fabric_.carry_mad(lid_, to.lid.value(), std::move(mad));
    }
    void send_packet(PortNumber /*port*/, VirtualPort::Sent packet) override {
      fabric_.carry_packet(lid_, std::move(packet.packet));
    }
    void deliver(const VirtualPortName& name, ByteSpan frame) override {
      fabric_.check_delivery(lid_, name, frame);
    }
    void interface_changed(const VirtualPort& /*vport*/) override { ++changes; }

    void load() {
      control = ControlPort::add_one(*this).value();
      interface_macs.clear();
    }
    void unload() { control.reset(); }
    [[nodiscard]] std::uint32_t lid() const { return lid_; }
    [[nodiscard]] VirtualPort* vport(std::uint8_t number) const {
      return control == nullptr ? nullptr : control->get_vport({PortNumber{1}, number});
    }

    std::unique_ptr<ControlPort> control;
    bool link_up{true};
    std::map<std::uint8_t, std::vector<wire::MacAddress>> interface_macs;

   private:
    Fabric& fabric_;
    std::uint32_t lid_;
  };

  Fabric(std::uint64_t seed, const FabricOptions& chosen) : random(seed), options(chosen) {
    for (std::uint32_t i = 0; i < options.hosts; ++i) {
      hosts.push_back(std::make_unique<Host>(*this, i + 1));
      hosts.back()->load();
    }
    config = make_config();
    start_manager();
  }
  ~Fabric() {
    for (const auto& host : hosts) {
      host->unload();
    }
  }
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  [[nodiscard]] static wire::MacAddress base_mac(std::uint32_t lid, std::uint8_t vport) {
    return wire::MacAddress::from_number(0x0011'7500'0000U + lid * 256U + vport);
  }

  /// Two virtual switches: every host has virtual port 0 on the first, every second one port 1 on
  /// the other.
  [[nodiscard]] ManagerConfig make_config() const {
    ManagerConfig made;
    for (std::uint8_t vesw = 0; vesw < 2; ++vesw) {
      SwitchConfig one{.name = "vesw" + std::to_string(vesw),
                       .fabric_id = 1,
                       .vesw_id = static_cast<std::uint16_t>(100 + vesw),
                       .multicast_dlid = kMulticastDlid + vesw,
                       .default_dlids = {kMulticastDlid + vesw},
                       .filters_sources = vesw == 1};
      for (const auto& host : hosts) {
        if (vesw == 0 || host->lid() % 2 == 1) {
          one.members.push_back(
              {.port = Guid{host->lid()}, .vport = vesw, .mac = base_mac(host->lid(), vesw)});
        }
      }
      made.switches.push_back(std::move(one));
    }
    return made;
  }

  void start_manager() {
    manager = std::make_unique<EthernetManager>(ManagerAddress{.lid = kManagerLid}, ++manager_life,
                                                ManagerLimits{.interval = options.interval});
    manager->set_config(config, now);
    show_ports();
  }
  void kill_manager() { manager.reset(); }

  /// The subnet manager tells the Ethernet Manager what it sees.
  void show_ports() {
    if (manager == nullptr) {
      return;
    }
    std::vector<FabricPort> ports;
    for (const auto& host : hosts) {
      if (host->link_up) {
        ports.push_back({.guid = Guid{host->lid()},
                         .lid = host->lid(),
                         .has_ethernet_on_fabric = host->announced[PortNumber{1}]});
      }
    }
    manager->set_ports(ports, now);
  }

  void set_link(Host& host, bool is_up) {
    host.link_up = is_up;
    if (host.control != nullptr) {
      host.control->handle_port_event(PortNumber{1}, is_up, now);
    }
    show_ports();
  }

  /// Interfaces are up as soon as they exist.
  void raise_interfaces() {
    for (const auto& host : hosts) {
      for (const std::uint8_t vport : {std::uint8_t{0}, std::uint8_t{1}}) {
        VirtualPort* const port = host->vport(vport);
        if (port != nullptr && !host->interface_macs.contains(vport)) {
          host->interface_macs[vport] = {};
          port->set_interface_up(true, now);
        }
      }
    }
  }

  void set_macs(Host& host, std::uint8_t vport, std::vector<wire::MacAddress> macs) {
    if (VirtualPort* const port = host.vport(vport)) {
      host.interface_macs[vport] = macs;
      port->set_unicast_macs(std::move(macs), now);
    }
  }

  void run_for(Duration span) {
    const Instant end = now + span;
    for (;;) {
      pump();
      Instant next = events.empty() ? Instant::never() : events.begin()->first.first;
      next = manager == nullptr ? next : std::min(next, manager->deadline());
      for (const auto& host : hosts) {
        next = host->control == nullptr ? next : std::min(next, host->control->deadline());
      }
      if (next > end) {
        break;
      }
      now = std::max(now, next);
      if (!events.empty() && events.begin()->first.first <= now) {
        const auto what = std::move(events.begin()->second);
        events.erase(events.begin());
        what();
      }
    }
    now = end;
  }

  /// Sends a frame; the checker remembers to whom it may go.
  void send(Host& host, std::uint8_t vport, const wire::MacAddress& to) {
    const std::uint32_t number = ++frames_sent;
    sent[number] = {.to = to, .vesw = vport, .from = host.lid(), .deliveries = {}};
    host.control->transmit({PortNumber{1}, vport},
                           make_frame({.destination = to.number(),
                                       .source = base_mac(host.lid(), vport).number(),
                                       .number = number}));
  }

  /// Frames that were delivered where they must not be, or twice, so far; and others' findings.
  std::vector<std::string> findings;

  struct SentFrame {
    wire::MacAddress to;
    std::uint8_t vesw{};
    std::uint32_t from{};
    std::set<std::uint32_t> deliveries{};
  };

  Random random;
  FabricOptions options;
  Instant now{};
  std::vector<std::unique_ptr<Host>> hosts;
  std::unique_ptr<EthernetManager> manager;
  ManagerConfig config;
  std::uint64_t manager_life{};
  std::uint32_t frames_sent{};
  std::map<std::uint32_t, SentFrame> sent;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> events;
  std::uint64_t order{};

 private:
  void after(Duration delay, std::function<void()> what) {
    events.emplace(std::pair{now + delay, ++order}, std::move(what));
  }
  [[nodiscard]] Duration some_delay() {
    return Duration::microseconds(10 + static_cast<std::int64_t>(random.below(
                                           static_cast<std::uint64_t>(options.most_delay_us))));
  }

  void carry_mad(std::uint32_t from, std::uint32_t to, std::vector<std::byte> mad) {
    if (random.chance(options.mad_loss, 100)) {
      return;
    }
    after(some_delay(), [this, from, to, mad = std::move(mad)] {
      if (to == kManagerLid && manager != nullptr) {
        manager->handle_mad(Lid{from}, mad, now);
      }
      Host* const host = host_of(to);
      if (host != nullptr && host->link_up && host->control != nullptr) {
        host->control->handle_mad(PortNumber{1}, {.lid = Lid{from}}, mad, now);
      }
    });
  }

  /// As switches do: by the DLID, and to all other members of a multicast group.
  void carry_packet(std::uint32_t from, std::vector<std::byte> packet) {
    const std::uint32_t dlid = wire::parse_opa_ethernet(packet)->header.dlid.value();
    for (const auto& host : hosts) {
      const bool is_for_it = dlid >= kMulticastDlid ? host->lid() != from : host->lid() == dlid;
      if (!is_for_it || random.chance(options.data_loss, 100)) {
        continue;
      }
      after(some_delay(), [to = host.get(), packet] {
        if (to->link_up && to->control != nullptr) {
          to->control->handle_packet(PortNumber{1}, packet);
        }
      });
    }
  }

  void check_delivery(std::uint32_t lid, const VirtualPortName& name, ByteSpan frame) {
    const auto found = sent.find(number_of(frame));
    if (found == sent.end()) {
      findings.emplace_back("a frame that nobody sent");
      return;
    }
    SentFrame& one = found->second;
    if (one.vesw != name.number) {
      findings.emplace_back("a frame of another virtual switch");
    }
    if (!one.deliveries.insert(lid).second) {
      findings.emplace_back("a frame that comes twice");
    }
    const auto& extra = host_of(lid)->interface_macs[name.number];
    const bool is_own =
        one.to == base_mac(lid, name.number) || std::ranges::find(extra, one.to) != extra.end();
    if (!one.to.is_broadcast() && !is_own) {
      findings.emplace_back("a frame for another station");
    }
  }

  [[nodiscard]] Host* host_of(std::uint32_t lid) {
    return lid >= 1 && lid <= hosts.size() ? hosts[lid - 1].get() : nullptr;
  }

  void pump() {
    for (const auto& host : hosts) {
      if (host->control != nullptr) {
        host->control->handle_timeout(now);
      }
    }
    if (manager != nullptr) {
      manager->handle_timeout(now);
      while (const auto mad = manager->poll_transmit()) {
        const auto packed = wire::pack(mad->mad);
        carry_mad(kManagerLid, mad->lid.value(), {packed.begin(), packed.end()});
      }
    }
    raise_interfaces();
    check_states();
  }

  void check_states() {
    for (const auto& host : hosts) {
      for (const std::uint8_t vport : {std::uint8_t{0}, std::uint8_t{1}}) {
        const VirtualPort* const port = host->vport(vport);
        if (port != nullptr && port->is_forwarding() &&
            port->info().port.config_state != wire::VeswPortState::Forwarding) {
          findings.emplace_back("a port forwards that is to drop all");
        }
      }
    }
  }
};

}  // namespace weft::opa_vnic::testing
