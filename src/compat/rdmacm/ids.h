#pragma once

// Communication identifiers of this program: the C objects and this library's state of each. The
// protocol runs in the daemon; this library identifies ids, waits for events, and moves QPs. Any
// thread may use different ids at once; librdmacm's rules apply to a single one.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "compat/rdmacm/address_request.h"
#include "compat/rdmacm/channel.h"
#include "compat/rdmacm/devices.h"

namespace weft::compat {

/// Counts the events of an id or membership that the program has acknowledged: destruction waits
/// until all are (rdma_ack_cm_event(3)).
class Acknowledgements {
 public:
  /// The program has acknowledged one event.
  void add();
  /// Waits until `count` events have been acknowledged.
  void wait_for(std::uint32_t count);

 private:
  std::mutex lock_;
  std::condition_variable added_;
  std::uint32_t count_{};
};

struct Id;

/// Membership of an id in a multicast group.
struct Membership {
  Id* id{};
  std::uint64_t uid{};
  std::uint32_t number{};  // at the daemon
  void* context{};
  bool is_send_only{};
  sockaddr_storage address{};
  ibv_gid mgid{};
  std::uint16_t mlid{};
  bool is_attached{};
  Acknowledgements acknowledged;
};

/// This library's state of an id.
struct Id {
  rdma_cm_id cm{};  // the object that the program holds
  std::uint64_t uid{};
  std::uint32_t number{};      // at the daemon
  bool is_synchronous{};       // has its own channel, and calls wait for their event
  bool failed_to_establish{};  // reported to the program, so later failures are not
  Device* device{};            // bound to
  std::vector<std::byte> private_data_header;  // precedes the program's private data (ai_connect)
  std::optional<ibv_qp_init_attr> qp_of_requests;  // for connections of a listening endpoint
  std::uint8_t initiator_depth{};
  std::uint8_t responder_resources{};
  ibv_ece local_ece{};
  ibv_ece remote_ece{};
  std::mutex memberships_lock;
  std::vector<std::unique_ptr<Membership>> memberships;
  Acknowledgements acknowledged;
  std::shared_ptr<AddressQuestion> addresses{std::make_shared<AddressQuestion>()};

  [[nodiscard]] bool is_datagram() const { return cm.qp_type == IBV_QPT_UD; }
};

[[nodiscard]] inline Id& id_of(rdma_cm_id* cm) { return *static_cast<Id*>(static_cast<void*>(cm)); }

/// An event that the program holds until it acknowledges it.
struct Event {
  rdma_cm_event front{};
  std::uint8_t private_data[256]{};  // programs read structures here, however much arrived
  Id* id{};  // the id that counts it; for a connection request, the listener
  Membership* membership{};
};

/// Registers ids and memberships under the number that their events carry. Lookups of destroyed
/// objects return null.
[[nodiscard]] std::uint64_t name(Id& id);
[[nodiscard]] std::uint64_t name(Membership& membership);
[[nodiscard]] Id* find_id(std::uint64_t uid);
/// By the number at the daemon.
[[nodiscard]] Id* find_numbered_id(std::uint32_t number);
[[nodiscard]] Membership* find_membership(std::uint64_t uid);
void remove_name(std::uint64_t uid);

/// Creates an id that is not known to the daemon yet. Without a channel it gets its own; null after
/// refuse().
[[nodiscard]] std::unique_ptr<Id> new_id(rdma_event_channel* channel, void* context,
                                         rdma_port_space port_space, ibv_qp_type qp_type);
/// Creates an id and registers it with the daemon; null after refuse().
[[nodiscard]] std::unique_ptr<Id> create_id(rdma_event_channel* channel, void* context,
                                            rdma_port_space port_space, ibv_qp_type qp_type);
/// Destroys an id from new_id().
void release_id(std::unique_ptr<Id> id);

/// Sends a request about an id over its channel; nullopt after refuse().
template <class Answer>
[[nodiscard]] std::optional<Answer> ask(const Id& id, const uabi::Message& question) {
  const auto channel = channel_of(id.cm.channel);
  return channel == nullptr ? std::nullopt : channel->ask<Answer>(question);
}
/// The value of an RdmaCmAnswer; nullopt after refuse().
[[nodiscard]] std::optional<std::uint32_t> request(const Id& id, const uabi::Message& question);
/// The same for requests without a value. Returns 0, or -1 after refuse().
[[nodiscard]] int command(const Id& id, const uabi::Message& question);

/// Updates the id's addresses, device and, if requested, paths from the daemon. Returns 0, or -1
/// after refuse().
[[nodiscard]] int refresh(Id& id, bool with_paths = false);

/// To be called at the end of calls that complete by an event: if the id is synchronous, waits for
/// the event. Returns 0, or -1 with the event's errno. The event stays in `cm.event` until the next
/// one.
[[nodiscard]] int complete(Id& id);
/// Text of an event number for rdma_event_str(3).
[[nodiscard]] const char* name_of_event(int number);
/// Acknowledges the event of a synchronous id's last call.
void acknowledge_last(Id& id);

// --- QPs of ids (queue_pairs.cc); return 0, or -1 after refuse(); no effect without a QP

/// To RTS through RTR, with the attributes of the connection.
[[nodiscard]] int move_to_rts(Id& id);
/// The same with these depths of READs and atomics in place of the connection's.
[[nodiscard]] int move_to_rts(Id& id, std::uint8_t responder_resources,
                              std::uint8_t initiator_depth);
/// To the error state, which flushes what is posted.
[[nodiscard]] int move_to_error(Id& id);

/// On the active side, after the REP: moves the QP to RTS and sends the RTU (connection.cc).
[[nodiscard]] int establish(Id& id);
/// The same, and the adapters' agreement.
[[nodiscard]] int establish(Id& id, const verbs::Ece& answer);

}  // namespace weft::compat
