#include "programs/host/port.h"

#include <arpa/inet.h>
#include <poll.h>

#include <array>
#include <cstring>
#include <optional>

#include "verbs/mtu.h"
#include "verbs/port_state.h"

namespace weft::programs {
namespace {

[[nodiscard]] Gid gid_of(const ibv_gid& gid) {
  std::array<std::byte, Gid::kSize> octets{};
  std::memcpy(octets.data(), gid.raw, Gid::kSize);
  return Gid{octets};
}

}  // namespace

Result<sa::LocalPort> port_attributes(ibv_context& context, std::uint8_t port,
                                      std::uint16_t pkey_index) {
  ibv_port_attr known{};
  if (const int error = ibv_query_port(&context, port, &known)) {
    return fail(ErrorCode::NoSuchDevice, "ibv_query_port: {}", std::strerror(error));
  }
  sa::LocalPort out;
  out.state = verbs::port_state_of(static_cast<std::uint32_t>(known.state))
                  .value_or(verbs::PortState::Down);
  out.lid = Lid{known.lid};
  out.lmc = known.lmc;
  out.sm_lid = Lid{known.sm_lid};
  out.sm_sl = ServiceLevel{known.sm_sl};
  out.max_mtu = verbs::mtu_of(known.max_mtu).value_or(out.max_mtu);
  out.active_mtu = verbs::mtu_of(known.active_mtu).value_or(out.active_mtu);
  out.active_width = known.active_width;
  out.active_speed = known.active_speed;
  ibv_gid gid{};
  if (ibv_query_gid(&context, port, 0, &gid) == 0 && !gid_of(gid).is_zero()) {
    out.gids = {gid_of(gid)};
  }
  __be16 pkey{};
  if (ibv_query_pkey(&context, port, pkey_index, &pkey) == 0) {
    out.pkeys = {PKey{ntohs(pkey)}};
  }
  return out;
}

Result<std::uint16_t> find_pkey(ibv_context& context, std::uint8_t port, PKey pkey) {
  ibv_port_attr known{};
  if (const int error = ibv_query_port(&context, port, &known)) {
    return fail(ErrorCode::NoSuchDevice, "ibv_query_port: {}", std::strerror(error));
  }
  std::optional<std::uint16_t> found;
  for (std::uint16_t index = 0; index < known.pkey_tbl_len; ++index) {
    __be16 entry{};
    if (ibv_query_pkey(&context, port, index, &entry) != 0 ||
        PKey{ntohs(entry)}.base() != pkey.base()) {
      continue;
    }
    if (PKey{ntohs(entry)}.is_full_member()) {
      return index;
    }
    found = found.value_or(index);
  }
  if (!found) {
    return fail(ErrorCode::NotFound, "port {} is no member of the partition {:#06x}", port,
                pkey.value());
  }
  return *found;
}

PortEvent take_port_event(ibv_context& context) {
  pollfd wait{.fd = context.async_fd, .events = POLLIN, .revents = 0};
  ibv_async_event event{};
  if (::poll(&wait, 1, 0) != 1 || ibv_get_async_event(&context, &event) != 0) {
    return (wait.revents & (POLLERR | POLLHUP)) != 0 ? PortEvent::Gone : PortEvent::None;
  }
  ibv_ack_async_event(&event);
  switch (event.event_type) {
    case IBV_EVENT_CLIENT_REREGISTER:
      return PortEvent::Reregister;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_CQ_ERR:
      return PortEvent::Gone;
    default:
      return PortEvent::PortChanged;
  }
}

}  // namespace weft::programs
