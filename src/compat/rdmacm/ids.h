#pragma once

// Communication identifiers of this program: what it holds, and what this library knows of each.
// The protocol is the daemon's; here ids are told apart, events are waited for, and QPs follow.

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

/// How many events of an id or a membership the program has acknowledged: none may be left when
/// it goes (rdma_ack_cm_event(3)).
class Acknowledgements {
 public:
  void add();
  void wait_for(std::uint32_t count);

 private:
  std::mutex lock_;
  std::condition_variable added_;
  std::uint32_t count_{};
};

struct Id;

/// An id's membership in a multicast group.
struct Membership {
  Id* id{};
  std::uint64_t uid{};
  std::uint32_t number{};  // the daemon's
  void* context{};
  bool is_send_only{};
  sockaddr_storage address{};
  ibv_gid mgid{};
  std::uint16_t mlid{};
  bool is_attached{};
  Acknowledgements acknowledged;
};

struct Id {
  rdma_cm_id cm{};  // what the program holds
  std::uint64_t uid{};
  std::uint32_t number{};      // the daemon's
  bool is_synchronous{};       // has a channel of its own, and calls wait for their event
  bool failed_to_establish{};  // the program was told; what comes of it is news no more
  Device* device{};            // bound to
  std::vector<std::byte> private_data_header;  // private data before the program's own (ai_connect)
  std::optional<ibv_qp_init_attr> qp_of_requests;  // of a listening endpoint
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
  std::uint8_t private_data[256]{};  // programs read structures there, whatever came
  Id* id{};                          // whose it counts for: of a request the listener
  Membership* membership{};
};

/// Ids and memberships by the name that events call them by. What is gone has no name any more.
[[nodiscard]] std::uint64_t name(Id& id);
[[nodiscard]] std::uint64_t name(Membership& membership);
[[nodiscard]] Id* find_id(std::uint64_t uid);
/// By the daemon's number.
[[nodiscard]] Id* find_numbered_id(std::uint32_t number);
[[nodiscard]] Membership* find_membership(std::uint64_t uid);
void remove_name(std::uint64_t uid);

/// An id that the daemon does not know yet. Without a channel it gets one of its own; null after
/// refuse().
[[nodiscard]] std::unique_ptr<Id> new_id(rdma_event_channel* channel, void* context,
                                         rdma_port_space port_space, ibv_qp_type qp_type);
/// The same, and the daemon has it; null after refuse().
[[nodiscard]] std::unique_ptr<Id> create_id(rdma_event_channel* channel, void* context,
                                            rdma_port_space port_space, ibv_qp_type qp_type);
/// What new_id() made.
void release_id(std::unique_ptr<Id> id);

/// The answer to a question about an id, which goes by the id's channel; nothing after refuse().
template <class Answer>
[[nodiscard]] std::optional<Answer> ask(const Id& id, const uabi::Message& question) {
  const auto channel = channel_of(id.cm.channel);
  return channel == nullptr ? std::nullopt : channel->ask<Answer>(question);
}
/// What an RdmaCmAnswer says; nothing after refuse().
[[nodiscard]] std::optional<std::uint32_t> request(const Id& id, const uabi::Message& question);
/// 0, or -1 after refuse().
[[nodiscard]] int command(const Id& id, const uabi::Message& question);

/// Takes over what the daemon knows of the id: addresses, device and, if wanted, paths. 0, or -1
/// after refuse().
[[nodiscard]] int refresh(Id& id, bool with_paths = false);

/// A call that ends in an event returns when it came if the id is synchronous: 0, or -1 with the
/// event's errno. The event stays in `cm.event` until the next one.
[[nodiscard]] int complete(Id& id);
/// What rdma_event_str(3) says of an event of that number.
[[nodiscard]] const char* name_of_event(int number);
/// Acknowledges the event of the last call of a synchronous id.
void acknowledge_last(Id& id);

// --- QPs of ids (queue_pairs.cc): each 0, or -1 after refuse(); nothing to do without a QP

[[nodiscard]] int move_to_rts(Id& id);
[[nodiscard]] int move_to_rts(Id& id, std::uint8_t responder_resources,
                              std::uint8_t initiator_depth);
[[nodiscard]] int move_to_error(Id& id);

/// The active side has the passive side's answer: its QP is ready and the passive side told so
/// (connection.cc).
[[nodiscard]] int establish(Id& id);
/// The same, and the adapters' agreement.
[[nodiscard]] int establish(Id& id, const uabi::RdmaCmEce& answer);

}  // namespace weft::compat
