#pragma once

// What carries 16B packets and OPA MADs for the virtual NICs of a host, or for an Ethernet Manager:
// a host's Omni-Path port (omni_path_port.h), or an InfiniBand port in the place of one
// (datagram_port.h). All that comes is foreign, and none of it is trusted. One thread; not
// thread-safe.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "programs/vnic/announcement.h"
#include "programs/vnic/poll_set.h"
#include "ulp/opa_vnic/device.h"

namespace weft::programs::vnic {

/// What was not carried, and why.
struct OpaPortCounters {
  std::uint64_t mads_sent{};
  std::uint64_t mads_received{};
  /// to a port that has not announced itself, or by a service level that the link has not
  std::uint64_t mads_unroutable{};
  std::uint64_t packets_sent{};
  std::uint64_t packets_received{};
  std::uint64_t tx_no_peer{};    ///< to a LID that nobody has announced
  std::uint64_t tx_no_group{};   ///< to a multicast LID of no group that this port is in
  std::uint64_t tx_too_long{};   ///< longer than the path's MTU
  std::uint64_t tx_refused{};    ///< that a QP did not take, or did not send
  std::uint64_t rx_truncated{};  ///< without a whole 16B header, or a MAD of another length
  std::uint64_t rx_misrouted{};  ///< whose LIDs are not those that it came by
  std::uint64_t rx_lost{};       ///< for which this process had no room
};

/// Where what a virtual switch floods goes.
struct FloodGroup {
  std::uint16_t fabric_id{};
  std::uint16_t vesw_id{};
  /// As a manager has set it in the switch; a manager leaves it open.
  Lid mlid{};
  friend auto operator<=>(const FloodGroup&, const FloodGroup&) = default;
};

class OpaPort {
 public:
  enum class Use : std::uint8_t { Manager, Agent };
  struct Handlers {
    std::function<void(const opa_vnic::VemaPeer& from, ByteSpan mad)> mad;
    std::function<void(ByteSpan packet)> packet;
    /// The port's state or LID, groups, or who is announced.
    std::function<void()> changed;
  };

  /// An Omni-Path port where the host has one. NoSuchDevice: the program is on no host of a fabric.
  /// NotSupported: MADs of OPA do not fit the links.
  [[nodiscard]] static Result<std::unique_ptr<OpaPort>> open(Use use, Handlers handlers);

  OpaPort() = default;
  virtual ~OpaPort() = default;
  OpaPort(const OpaPort&) = delete;
  OpaPort& operator=(const OpaPort&) = delete;

  virtual void add_to(PollSet& waits) const = 0;
  /// Takes and sends what there is. True: there is more to do at once. NoSuchDevice or Io: the
  /// fabric or the device is gone.
  [[nodiscard]] virtual Result<bool> work(const PollSet& waits, Instant now) = 0;
  /// Before a wait: what was said since work() leaves. Fails likewise.
  [[nodiscard]] virtual Result<void> flush() { return {}; }
  [[nodiscard]] virtual Instant deadline() const = 0;

  [[nodiscard]] virtual bool is_omni_path() const = 0;
  [[nodiscard]] virtual bool is_active() const = 0;
  /// 0: it has none yet.
  [[nodiscard]] virtual Lid lid() const = 0;
  [[nodiscard]] virtual PKey management_pkey() const = 0;
  /// Of an InfiniBand port's two QPs.
  [[nodiscard]] virtual Qpn mad_qp() const { return {}; }
  [[nodiscard]] virtual Qpn packet_qp() const { return {}; }
  [[nodiscard]] virtual bool has_room() const = 0;
  /// The longest 16B packet.
  [[nodiscard]] virtual std::size_t max_packet_bytes() const = 0;

  /// From now on the fabric knows that this port carries Ethernet, under the host's name.
  virtual void announce(std::string host, Instant now) = 0;
  virtual void withdraw(Instant now) = 0;
  [[nodiscard]] virtual bool is_announced() const = 0;
  [[nodiscard]] virtual bool is_idle() const = 0;
  /// Asks who is announced; not while an answer is to come.
  virtual void look_up(Instant now) = 0;
  [[nodiscard]] virtual const std::map<Lid, Announcement>& announced() const = 0;

  /// The port is to be in these groups and no others.
  virtual void set_groups(const std::set<FloodGroup>& wanted, Instant now) = 0;
  /// None: not joined, or not yet.
  [[nodiscard]] virtual std::optional<Lid> lid_of_group(const FloodGroup& group) const = 0;

  /// To whom has asked; to the agent of that port; or to the manager there. The P_Key is
  /// management's.
  virtual void send_mad(const opa_vnic::VemaPeer& to, std::vector<std::byte> mad) = 0;
  virtual void send_mad_to_agent(Lid to, std::vector<std::byte> mad) = 0;
  virtual void send_mad_to_manager(opa_vnic::VemaPeer to, std::vector<std::byte> mad) = 0;
  /// A 16B packet, by its DLID.
  virtual void send_packet(std::vector<std::byte> packet, Instant now) = 0;

  [[nodiscard]] virtual OpaPortCounters counters() const = 0;
};

}  // namespace weft::programs::vnic
