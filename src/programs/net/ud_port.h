#pragma once

// A UD QP of the host's HCA by libibverbs, which sends and receives the packets of an IPoIB
// interface (RFC 4391 §5). Not thread-safe.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "mad/datagram.h"
#include "programs/host/port.h"
#include "sa/local_port.h"

namespace weft::programs::net {

class UdPort {
 public:
  /// A port of the host, counted from 0 over all its devices, in that partition or in the first
  /// that it has. NoSuchDevice: the program is on no host of a fabric, or the host has no such
  /// port. NotFound: the port is no member.
  [[nodiscard]] static Result<std::unique_ptr<UdPort>> open(
      std::uint32_t port_of_host = 0, std::optional<PKey> partition = std::nullopt);
  ~UdPort();
  UdPort(const UdPort&) = delete;
  UdPort& operator=(const UdPort&) = delete;

  [[nodiscard]] std::string device() const { return ibv_get_device_name(context_->device); }
  [[nodiscard]] std::uint8_t port() const { return port_; }
  [[nodiscard]] Qpn qpn() const { return Qpn{qp_->qp_num}; }
  /// Readable when handle_completions() and take_event() have something to do.
  [[nodiscard]] int completions_fd() const { return channel_->fd; }
  [[nodiscard]] int events_fd() const { return context_->async_fd; }

  /// As subnet management has set it now, with the partition's P_Key alone.
  [[nodiscard]] Result<sa::LocalPort> attributes();
  /// The first of the port's table, of whatever partition this QP is. None: there is none.
  [[nodiscard]] std::optional<PKey> first_pkey() const;
  [[nodiscard]] Result<void> set_qkey(QKey qkey);
  /// The QP is to be attached to these groups and no others.
  [[nodiscard]] Result<void> set_attachments(const std::map<Gid, Lid>& wanted);

  /// There is room for one more packet.
  [[nodiscard]] bool has_room() const { return !free_.empty(); }
  /// Needs room. What the QP refuses is lost, and counted.
  void send(const mad::Datagram& datagram);

  /// Takes completions, some at a time, and hands received packets on. True: there may be more.
  /// `has_event`: completions_fd() was readable.
  using Receiver = std::function<void(const mad::ReceivedDatagram&)>;
  [[nodiscard]] bool handle_completions(bool has_event, const Receiver& receiver);

  using Event = PortEvent;
  [[nodiscard]] Event take_event();

  struct Counters {
    std::uint64_t refused{};  ///< packets that the QP did not take
    std::uint64_t failed{};   ///< completions in error
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  using AddressKey = std::tuple<std::uint32_t, std::uint8_t, std::uint8_t, Gid, std::uint32_t,
                                std::uint8_t, std::uint8_t>;

  UdPort() = default;
  [[nodiscard]] Result<void> open_device(std::uint32_t port_of_host);
  [[nodiscard]] Result<void> set_up(std::optional<PKey> partition);
  [[nodiscard]] Result<void> bring_up_qp();
  [[nodiscard]] bool post_receive(std::uint32_t slot);
  [[nodiscard]] ibv_ah* address_handle(const mad::MadAddress& to);
  void receive(const ibv_wc& completion, const Receiver& receiver);
  [[nodiscard]] std::byte* slot_at(std::uint32_t slot);

  ibv_context* context_{};
  std::uint8_t port_{1};
  ibv_pd* pd_{};
  ibv_comp_channel* channel_{};
  ibv_cq* cq_{};
  ibv_mr* mr_{};
  ibv_qp* qp_{};
  std::uint16_t pkey_index_{};
  Lid lid_{};  // as of the last attributes(), and what follows
  std::vector<PKey> pkeys_;
  QKey qkey_{};
  std::vector<std::byte> memory_;  // slots to receive into, then slots to send from
  std::vector<std::uint32_t> free_;
  std::map<Gid, Lid> attached_;
  std::map<AddressKey, ibv_ah*> handles_;
  Counters counters_;
};

}  // namespace weft::programs::net
