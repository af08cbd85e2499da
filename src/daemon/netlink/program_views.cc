#include "daemon/netlink/program_views.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "cm/rdma/socket_address.h"

namespace weft::daemon {
namespace {

constexpr std::uint8_t kErr = 6;  // IBV_QPS_ERR, the last
constexpr std::uint8_t kRc = 2;   // IBV_QPT_*
constexpr std::uint8_t kUc = 3;
constexpr std::uint8_t kUd = 4;
constexpr std::uint8_t kXrcInitiator = 9;
constexpr std::uint8_t kXrcTarget = 10;
constexpr std::uint8_t kArmed = 2;  // IBV_MIG_ARMED, the last

[[nodiscard]] bool is_known(const uabi::HeldQp& qp) {
  constexpr std::array kTypes = {kRc, kUc, kUd, kXrcInitiator, kXrcTarget};
  return std::ranges::find(kTypes, qp.type) != kTypes.end() && qp.state <= kErr &&
         qp.migration <= kArmed;
}

/// The kernel's enum rdma_cm_state, which `rdma res show cm_id` names.
[[nodiscard]] std::uint8_t kernel_state(cm::RdmaCmState state) {
  switch (state) {
    case cm::RdmaCmState::Idle:
      return 0;
    case cm::RdmaCmState::AddressQuery:
      return 1;
    case cm::RdmaCmState::AddressResolved:
      return 2;
    case cm::RdmaCmState::RouteQuery:
      return 3;
    case cm::RdmaCmState::RouteResolved:
      return 4;
    case cm::RdmaCmState::Connect:
      return 5;
    case cm::RdmaCmState::Disconnect:
      return 6;
    case cm::RdmaCmState::AddressBound:
    case cm::RdmaCmState::ServiceQuery:
      return 7;
    case cm::RdmaCmState::Listen:
      return 8;
  }
  return 0;
}

template <class Sockaddr>
[[nodiscard]] std::vector<std::byte> octets_of(const Sockaddr& address) {
  std::vector<std::byte> octets(sizeof address);
  std::memcpy(octets.data(), &address, sizeof address);
  return octets;
}

[[nodiscard]] std::vector<std::byte> sockaddr_of(const cm::SocketAddress& address) {
  const auto* const ip = std::get_if<cm::IpEndpoint>(&address);
  if (ip == nullptr) {
    return {};  // `rdma` writes none but IP addresses
  }
  if (ip->address.is_v4()) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(ip->port);
    out.sin_addr.s_addr = htonl(ip->address.v4_number());
    return octets_of(out);
  }
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(ip->port);
  const auto octets = ip->address.v6_octets();
  std::memcpy(&out.sin6_addr, octets.data(), octets.size());
  return octets_of(out);
}

}  // namespace

void add_held(const uabi::ObjectsHeld& part, std::uint32_t slot, host_view::ProgramView& view) {
  const auto on_host = [slot](std::uint32_t number) { return number_on_host(slot, number); };
  for (const uabi::HeldPd& pd : part.pds) {
    view.pds.push_back({.number = on_host(pd.number), .users = pd.uses});
  }
  for (const uabi::HeldCq& cq : part.cqs) {
    view.cqs.push_back({.number = on_host(cq.number), .entries = cq.capacity, .users = cq.uses});
  }
  for (const uabi::HeldMr& mr : part.mrs) {
    view.mrs.push_back({.number = on_host(mr.number),
                        .rkey = mr.rkey,
                        .lkey = mr.lkey,
                        .length = mr.length,
                        .pd = on_host(mr.pd)});
  }
  for (const uabi::HeldSrq& srq : part.srqs) {
    view.srqs.push_back({.number = on_host(srq.number),
                         .type = srq.is_xrc ? std::uint8_t{1} : std::uint8_t{0},
                         .pd = on_host(srq.pd),
                         .cq = srq.cq == 0 ? std::nullopt : std::optional{on_host(srq.cq)}});
  }
  for (const uabi::HeldQp& qp : part.qps) {
    if (!is_known(qp)) {
      continue;
    }
    host_view::QpView out{.port = qp.port,
                          .number = qp.number,
                          .send_psn = qp.sq_psn & 0xFF'FFFF,
                          .type = qp.type,
                          .state = qp.state,
                          .pd = on_host(qp.pd)};
    if (qp.type == kRc || qp.type == kUc) {
      out.remote = qp.dest;
      out.receive_psn = qp.rq_psn & 0xFF'FFFF;
    }
    if (qp.type != kUd) {
      out.migration_state = qp.migration;
    }
    view.qps.push_back(out);
  }
}

host_view::CmIdView view_of(std::uint32_t number, const cm::RdmaCmIdInfo& info) {
  return {.number = number,
          .port = info.port.value(),
          .qp_type = std::to_underlying(info.qp_type),
          .port_space = std::to_underlying(info.space),
          .state = kernel_state(info.state),
          .source = sockaddr_of(info.source),
          .destination = sockaddr_of(info.destination)};
}

}  // namespace weft::daemon
