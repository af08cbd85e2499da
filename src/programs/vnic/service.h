#pragma once

// The virtual NICs of one host, until it is told to end: the agent that an Ethernet Manager
// configures, and a TAP in the host's network namespace for each virtual port. One thread, which
// sleeps while nothing happens.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "os/unique_fd.h"
#include "programs/control/control.h"
#include "programs/net/tun.h"
#include "programs/vnic/opa_port.h"
#include "programs/vnic/poll_set.h"
#include "programs/vnic/tap_facts.h"
#include "ulp/offload/coalescer.h"
#include "ulp/offload/segmenter.h"
#include "ulp/opa_vnic/control_port.h"
#include "ulp/opa_vnic/device.h"

namespace weft::programs::vnic {

/// Of its control socket, lock and log.
inline constexpr std::string_view kServiceName = "vnic";

struct ServiceOptions {
  std::string host;                         ///< its name in the fabric
  std::vector<InterfaceAddress> addresses;  ///< of opa0; others have none
  std::uint16_t mtu{};                      ///< wanted; 0: the virtual switch's
  bool waits{true};                         ///< for a manager that configures a port
};

class Service final : private opa_vnic::Device {
 public:
  /// Blocks SIGTERM and SIGINT, which end run().
  [[nodiscard]] static Result<std::unique_ptr<Service>> start(const ServiceOptions& options);
  ~Service() override;

  /// Calls `on_up` with what there is to say, when opa0 forwards or, for who does not wait, when
  /// the port is announced. Ends in order by a signal; or with the reason.
  [[nodiscard]] Result<void> run(const std::function<void(const std::string&)>& on_up);

 private:
  struct Tap {
    net::Tun tun;
    std::unique_ptr<offload::Coalescer> coalescer{};  // of frames for the host
    std::optional<TapFacts> facts{};
    wire::MacAddress mac{};
    std::uint32_t mtu{};
    std::optional<bool> has_carrier{};
    bool is_made{};        // up, with addresses
    std::uint64_t lost{};  // frames that the host did not take
  };

  explicit Service(ServiceOptions options, Control control)
      : options_(std::move(options)),
        control_(std::move(control)),
        buffer_(net::Tun::kLongestPacket) {}
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<bool> work(Instant now);
  [[nodiscard]] bool take_frames();
  void follow_port(Instant now);
  void follow_interfaces(Instant now);
  void follow_facts(opa_vnic::VirtualPort& vport, Tap& tap, Instant now);
  [[nodiscard]] Result<void> apply(const opa_vnic::VirtualPort& vport, Tap& tap);
  void tell_if_up();
  void wait_set(PollSet& waits) const;
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] std::string answer(std::string_view line) const;

  // opa_vnic::Device
  [[nodiscard]] std::uint8_t ports() const override { return 1; }
  [[nodiscard]] bool supports_vnic() const override { return true; }
  Result<void> register_agent(PortNumber, const opa_vnic::AgentRegistration&) override {
    return {};
  }
  void unregister_agent(PortNumber) override {}
  Result<void> set_ethernet_on_fabric(PortNumber port, bool is_supported) override;
  [[nodiscard]] PKey management_pkey(PortNumber) const override { return port_->management_pkey(); }
  void send_mad(PortNumber port, const opa_vnic::VemaPeer& to, std::vector<std::byte> mad) override;
  void send_packet(PortNumber port, opa_vnic::VirtualPort::Sent packet) override;
  [[nodiscard]] wire::MacAddress hardware_mac(const opa_vnic::VirtualPortName& name) const override;
  [[nodiscard]] bool add_interface(const opa_vnic::VirtualPortName& name) override;
  void interface_changed(const opa_vnic::VirtualPort&) override { has_changed_ = true; }
  void remove_interface(const opa_vnic::VirtualPortName& name) override;
  void deliver(const opa_vnic::VirtualPortName& name, ByteSpan frame) override;

  ServiceOptions options_;
  Control control_;
  std::vector<std::byte> buffer_;
  offload::Segmenter segmenter_;
  std::unique_ptr<OpaPort> port_;
  std::map<opa_vnic::VirtualPortName, Tap> taps_;
  std::unique_ptr<opa_vnic::ControlPort> vnics_;
  os::UniqueFd signals_;
  PollSet waits_;
  std::function<void(const std::string&)> on_up_;
  bool has_told_{};
  bool has_changed_{true};
  bool was_active_{true};
  Instant next_facts_{};
  Instant next_look_{};
  std::uint64_t looked_at_{};  // packets that had been sent
  std::string last_problem_;
};

}  // namespace weft::programs::vnic
