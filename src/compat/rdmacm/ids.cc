#include "compat/rdmacm/ids.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <variant>

#include "compat/rdmacm/later.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

using Named = std::variant<Id*, Membership*>;

std::mutex names_lock;
std::uint64_t last_name = 0;
auto& names =
    *new std::unordered_map<std::uint64_t, Named>;  // never destroyed: programs exit with ids

[[nodiscard]] std::uint64_t add_name(Named what) {
  const std::lock_guard guard{names_lock};
  names[++last_name] = what;
  return last_name;
}

template <class What>
[[nodiscard]] What* find(std::uint64_t uid) {
  const std::lock_guard guard{names_lock};
  const auto found = names.find(uid);
  if (found == names.end()) {
    return nullptr;
  }
  What* const* const what = std::get_if<What*>(&found->second);
  return what == nullptr ? nullptr : *what;
}

[[nodiscard]] int take_paths(Id& id, const std::vector<verbs::Path>& paths) {
  if (paths.empty()) {
    return 0;
  }
  auto* const records =
      static_cast<ibv_sa_path_rec*>(std::calloc(paths.size(), sizeof(ibv_sa_path_rec)));
  if (records == nullptr) {
    return refuse(ENOMEM, "no memory for paths");
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    records[i] = from_daemon(paths[i], i == 0);
  }
  std::free(id.cm.route.path_rec);
  id.cm.route.path_rec = records;
  id.cm.route.num_paths = static_cast<int>(paths.size());
  return 0;
}

[[nodiscard]] int bind_to_device(Id& id, const uabi::RdmaCmIdState& state) {
  id.device = take_device(state.device);
  if (id.device == nullptr) {
    return -1;
  }
  id.cm.verbs = id.device->verbs;
  id.cm.pd = id.device->pd;
  id.cm.port_num = state.port.value();
  return 0;
}

}  // namespace

void Acknowledgements::add() {
  const std::lock_guard guard{lock_};
  ++count_;
  added_.notify_all();
}

void Acknowledgements::wait_for(std::uint32_t count) {
  std::unique_lock guard{lock_};
  added_.wait(guard, [&] { return count_ >= count; });
}

std::uint64_t name(Id& id) { return add_name(&id); }
std::uint64_t name(Membership& membership) { return add_name(&membership); }
Id* find_id(std::uint64_t uid) { return find<Id>(uid); }
Membership* find_membership(std::uint64_t uid) { return find<Membership>(uid); }

Id* find_numbered_id(std::uint32_t number) {
  const std::lock_guard guard{names_lock};
  for (const auto& [uid, what] : names) {
    Id* const* const id = std::get_if<Id*>(&what);
    if (id != nullptr && (*id)->number == number) {
      return *id;
    }
  }
  return nullptr;
}

void remove_name(std::uint64_t uid) {
  const std::lock_guard guard{names_lock};
  names.erase(uid);
}

std::unique_ptr<Id> new_id(rdma_event_channel* channel, void* context, rdma_port_space port_space,
                           ibv_qp_type qp_type) {
  auto id = std::make_unique<Id>();
  id->is_synchronous = channel == nullptr;
  if (channel == nullptr) {
    const auto own = open_channel();
    if (own == nullptr) {
      return nullptr;
    }
    channel = own->front();
  }
  id->cm.channel = channel;
  id->cm.context = context;
  id->cm.ps = port_space;
  id->cm.qp_type = qp_type;
  id->uid = name(*id);
  id->addresses->id = id.get();
  return id;
}

std::unique_ptr<Id> create_id(rdma_event_channel* channel, void* context,
                              rdma_port_space port_space, ibv_qp_type qp_type) {
  auto id = new_id(channel, context, port_space, qp_type);
  if (id == nullptr) {
    return nullptr;
  }
  const auto number =
      request(*id, uabi::CreateRdmaCmId{.port_space = static_cast<std::uint16_t>(port_space),
                                        .qp_type = static_cast<std::uint8_t>(qp_type),
                                        .uid = id->uid});
  if (!number) {
    release_id(std::move(id));
    return nullptr;
  }
  id->number = *number;
  return id;
}

void release_id(std::unique_ptr<Id> id) {
  const int error = errno;  // of the failure that makes the id useless
  {
    const std::lock_guard guard{id->addresses->lock};
    id->addresses->id = nullptr;
  }
  remove_name(id->uid);
  for (const auto& membership : id->memberships) {
    remove_name(membership->uid);
  }
  if (id->device != nullptr) {
    give_back(*id->device);
  }
  close_gone_devices();  // whose connections ended while a listener stayed
  std::free(id->cm.route.path_rec);
  if (id->is_synchronous) {
    close_channel(id->cm.channel);
  }
  id.reset();
  errno = error;
}

std::optional<std::uint32_t> request(const Id& id, const uabi::Message& question) {
  const auto answer = ask<uabi::RdmaCmAnswer>(id, question);
  if (!answer) {
    return std::nullopt;
  }
  if (answer->error != 0) {
    refuse(static_cast<int>(answer->error), answer->reason);
    return std::nullopt;
  }
  return answer->value;
}

int command(const Id& id, const uabi::Message& question) { return request(id, question) ? 0 : -1; }

int refresh(Id& id, bool with_paths) {
  const auto state = ask<uabi::RdmaCmIdState>(id, uabi::QueryRdmaCmId{.id = id.number});
  if (!state) {
    return -1;
  }
  rdma_addr& address = id.cm.route.addr;
  from_daemon(state->source, address.src_storage);
  from_daemon(state->destination, address.dst_storage);
  if (state->device.empty()) {
    return 0;
  }
  if (id.device == nullptr && bind_to_device(id, *state) != 0) {
    return -1;
  }
  address.addr.ibaddr.sgid = from_daemon(state->sgid);
  address.addr.ibaddr.dgid = from_daemon(state->dgid);
  address.addr.ibaddr.pkey = htobe16(state->pkey.value());
  return with_paths ? take_paths(id, state->paths) : 0;
}

void acknowledge_last(Id& id) {
  if (id.cm.event != nullptr) {
    rdma_ack_cm_event(std::exchange(id.cm.event, nullptr));
  }
}

int complete(Id& id) {
  if (!id.is_synchronous) {
    return 0;
  }
  acknowledge_last(id);
  if (rdma_get_cm_event(id.cm.channel, &id.cm.event) != 0) {
    return -1;
  }
  const rdma_cm_event& event = *id.cm.event;
  if (event.status == 0) {
    return 0;
  }
  const int number = number_of(event.event);
  return refuse(number == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : std::abs(event.status),
                name_of_event(number));
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                               rdma_port_space port_space) {
  const bool is_datagram = port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB;
  auto created = create_id(channel, context, port_space, is_datagram ? IBV_QPT_UD : IBV_QPT_RC);
  if (created == nullptr) {
    return -1;
  }
  *id = &created.release()->cm;
  return 0;
}

WEFT_EXPORT int rdma_destroy_id(rdma_cm_id* cm) {
  Id& id = id_of(cm);
  const auto told = request(id, uabi::DestroyRdmaCmId{.id = id.number});
  if (!told) {
    return -1;
  }
  acknowledge_last(id);
  id.acknowledged.wait_for(*told);
  release_id(std::unique_ptr<Id>{&id});
  return 0;
}

WEFT_EXPORT int rdma_migrate_id(rdma_cm_id* cm, rdma_event_channel* channel) {
  Id& id = id_of(cm);
  const bool becomes_synchronous = channel == nullptr;
  if (id.is_synchronous && becomes_synchronous) {
    return refuse(EINVAL, "the id has a channel of its own already");
  }
  const auto from = channel_of(cm->channel);
  const auto to = becomes_synchronous ? open_channel() : channel_of(channel);
  if (from == nullptr || to == nullptr) {
    return -1;
  }
  std::unique_lock telling{
      id.addresses->lock};  // a resolver thread posts to the id's channel under it
  const auto answer =
      to->ask<uabi::RdmaCmAnswer>(uabi::MigrateRdmaCmId{.from = from->number(), .id = id.number});
  if (!answer || answer->error != 0) {
    if (becomes_synchronous) {
      const int error = answer ? static_cast<int>(answer->error) : errno;
      close_channel(to->front());
      errno = error;
    }
    return answer ? refuse(static_cast<int>(answer->error), answer->reason) : -1;
  }
  if (id.is_synchronous) {
    acknowledge_last(id);
    close_channel(from->front());
  }
  id.is_synchronous = becomes_synchronous;
  cm->channel = to->front();
  telling.unlock();
  id.acknowledged.wait_for(answer->value);
  return 0;
}

}  // extern "C"
