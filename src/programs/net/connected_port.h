#pragma once

// Connected mode's QPs (RFC 4755): RC or UC connections of one host's adapter by librdmacm, with
// AF_IB addresses. Those name a service ID and add nothing to the private data, so REQ and REP are
// what RFC 4755 §3.5 and §6 say, and what this end says behind it (ulp/ipoib/connection_data.h);
// the REQ names the type of the connection too, and RDMA-CM has a listener for each type that is
// offered. A connection carries packets from the end that made it. Not thread-safe.

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "ulp/ipoib/connection_table.h"

namespace weft::programs::net {

class ConnectedPort {
 public:
  /// Who wants to know: of connections that this end makes by the id of their Connect, of a peer's
  /// by another number.
  struct Sink {
    std::function<void(ipoib::ConnectionId, ByteSpan private_data)> established;
    std::function<void(ipoib::ConnectionId)> refused;
    std::function<void(ipoib::ConnectionId)> lost;
    std::function<Result<ipoib::ConnectionData>(ipoib::ConnectionId, ByteSpan)> accept;
    std::function<void(ipoib::ConnectionId)> closed;
    std::function<void(ipoib::ConnectionId, ByteSpan payload)> receive;
  };

  /// What it is of, and how it connects: not None.
  struct Options {
    std::string device;
    Qpn ud_qpn{};
    ipoib::ConnectedMode mode{};
    bool partial_checksums{};  ///< this end takes them; knows_captures()
  };
  /// Packets with partial checksums can be kept from captures.
  [[nodiscard]] static bool knows_captures();
  /// Listens for the interface with that UD QP.
  [[nodiscard]] static Result<std::unique_ptr<ConnectedPort>> open(const Options& options,
                                                                   Sink sink);
  ~ConnectedPort();
  ConnectedPort(const ConnectedPort&) = delete;
  ConnectedPort& operator=(const ConnectedPort&) = delete;

  /// Readable when take_events() has something to do.
  [[nodiscard]] int events_fd() const { return channel_->fd; }
  /// Readable when handle_completions() has something to do.
  [[nodiscard]] int completions_fd() const { return completions_->fd; }

  /// Packets may leave with partial checksums now: no capture is open that would show them.
  [[nodiscard]] bool may_send_partial_checksums() const;

  /// There is room for one more packet.
  [[nodiscard]] bool has_room() const { return !free_.empty(); }
  /// A Send needs room, unless its connection has many under way. The P_Key is of the path.
  void perform(ipoib::ConnectionAction action, PKey pkey);
  /// Room for one packet, from which send_at_once() sends without a copy; `otherwise` where there
  /// is none. Until give_back(), which comes before the next lend().
  [[nodiscard]] MutableByteSpan lend(MutableByteSpan otherwise);
  void give_back();
  /// Without a copy but the one that the adapter reads. False: not now, as another packet waits.
  [[nodiscard]] bool send_at_once(ipoib::ConnectionId id, ByteSpan header, ByteSpan packet);
  void take_events();
  /// Some at a time. True: there may be more. `has_event`: completions_fd() was readable.
  [[nodiscard]] bool handle_completions(bool has_event);

  struct Counters {
    std::uint64_t dropped{};  ///< too many waited for their connection, or it ended
    std::uint64_t failed{};   ///< completions in error
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Connection {
    ipoib::ConnectionId number{};
    bool is_own{};  // this end made it, and sends
    bool is_established{};
    bool is_ending{};
    rdma_cm_id* id{};
    ipoib::ConnectionData data{};  // this end's own, or the peer's
    std::size_t under_way{};
    std::deque<ipoib::Packet> waiting;
  };
  /// What rdma_get_cm_event said, copied.
  struct Event {
    rdma_cm_event_type type{};
    rdma_cm_id* id{};
    std::vector<std::byte> private_data;
  };

  ConnectedPort(Sink sink, bool partial_checksums)
      : sink_(std::move(sink)), partial_checksums_(partial_checksums) {}
  [[nodiscard]] Result<void> set_up(const std::string& device);
  [[nodiscard]] Result<void> listen(Qpn ud_qpn, ibv_qp_type type);
  [[nodiscard]] bool post_receive(std::uint32_t slot);
  [[nodiscard]] std::byte* slot_at(std::uint32_t slot) const;
  [[nodiscard]] rdma_cm_id* make_id(std::uint64_t service_id, ibv_qp_type type);
  [[nodiscard]] bool make_qp(rdma_cm_id* id);
  [[nodiscard]] bool connect(const ipoib::ConnectionAction& action, PKey pkey);
  [[nodiscard]] bool go_on(Connection& connection, rdma_cm_event_type after);
  void handle(const Event& event);
  void take_request(const Event& event);
  void end_earlier(const ibv_gid& peer, Qpn ud_qpn);
  void send(Connection& connection, ipoib::Packet packet);
  [[nodiscard]] bool may_post(const Connection& connection) const;
  void post(Connection& connection, ByteSpan header, ByteSpan packet);
  void sent(const ibv_wc& completion);
  void post_waiting(Connection& connection);
  void post_what_lacked_room();
  void end(Connection& connection, bool is_told);
  void destroy_ended();

  Sink sink_;
  const bool partial_checksums_;
  rdma_event_channel* channel_{};
  ibv_context* device_{};  // librdmacm's, which closes it
  ibv_pd* pd_{};
  ibv_comp_channel* completions_{};
  ibv_cq* cq_{};
  ibv_srq* srq_{};
  ibv_mr* mr_{};
  std::vector<rdma_cm_id*> listeners_;  // one for each type
  std::byte* memory_{};                 // slots to receive into, then slots to send from
  std::vector<std::uint32_t> free_;
  std::optional<std::uint32_t> lent_;
  std::map<std::uint32_t, Connection*> using_;  // slots under way
  std::map<rdma_cm_id*, std::unique_ptr<Connection>> connections_;
  std::map<ipoib::ConnectionId, Connection*> own_;
  std::map<std::uint32_t, ipoib::ConnectionId> of_peers_;  // by QPN
  ipoib::ConnectionId last_of_peers_{};
  bool has_ended_{};
  bool lacks_room_{};  // a packet waits for a slot of another connection
  Counters counters_;
};

}  // namespace weft::programs::net
