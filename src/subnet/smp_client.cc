#include "subnet/smp_client.h"

#include <utility>

namespace weft::subnet {
namespace {

constexpr std::size_t kMaxHops = wire::kSmpPathEntries - 1;
constexpr std::size_t kDataAt = 64;  // offset of SMPData in an SMP (IBTA vol 1 §14.2.1)

/// IBTA vol 1 §14.2.2: a pure directed route from the SM's own port.
mad::MadMessage make_smp(const DirectedRoute& route, const SmpRequest& request, const SmpData& data,
                         std::uint64_t mkey) {
  wire::SmpDirected smp{.header = {},
                        .mkey = mkey,
                        .dr_slid = kPermissiveLid,
                        .dr_dlid = kPermissiveLid,
                        .data = data};
  smp.header.method = request.is_set ? wire::MadMethod::Set : wire::MadMethod::Get;
  smp.header.attribute_id = static_cast<std::uint16_t>(request.attribute);
  smp.header.attribute_modifier = request.modifier;
  std::size_t hops = 0;
  for (const PortNumber port : route) {
    smp.initial_path[++hops] = static_cast<std::byte>(port.value());
  }
  if (request.egress != PortNumber{}) {
    smp.initial_path[++hops] = static_cast<std::byte>(request.egress.value());
  }
  smp.header.hop_count = static_cast<std::uint8_t>(hops);
  return {.mad = wire::pack(smp), .is_rmpp = false, .data = {}};
}

}  // namespace

void SmpClient::send(const DirectedRoute& route, const SmpRequest& request, const SmpData& data,
                     Handler handler, Instant now) {
  const std::size_t hops = route.size() + (request.egress != PortNumber{} ? 1 : 0);
  const mad::MadAddress to{.lid = kPermissiveLid, .qp = kQp0, .qkey = {}};
  const mad::TransactionOptions options{.timeout = options_.smp_timeout,
                                        .retries = options_.smp_retries,
                                        .doubles_timeout = false,
                                        .follows_redirects = false};
  const std::uint64_t serial = ++last_serial_;
  if (hops <= kMaxHops) {
    const auto sent = interface_.send(
        agent_, to, make_smp(route, request, data, options_.mkey), options,
        [this, serial](const mad::Completion& completion) { finish(serial, completion); }, now);
    if (sent) {
      in_flight_.emplace(
          serial, Pending{.request = request, .handler = std::move(handler), .transaction = *sent});
      return;
    }
  }
  handler(request, {}, now);
}

void SmpClient::finish(std::uint64_t serial, const mad::Completion& completion) {
  const auto found = in_flight_.extract(serial);
  if (!found) {
    return;
  }
  SmpAnswer answer;
  if (completion.status == mad::TransactionStatus::Answered) {
    answer.is_answered = true;
    answer.status = completion.answer->status();
    copy_bytes(answer.data, ByteSpan{completion.answer->mad}.subspan(kDataAt, wire::kSmpDataBytes));
  }
  found.mapped().handler(found.mapped().request, answer, completion.now);
}

SmpClient::InFlight SmpClient::take_back(Instant now) {
  InFlight pending = std::exchange(in_flight_, {});
  for (const auto& [serial, each] : pending) {
    static_cast<void>(interface_.cancel(each.transaction, now));
  }
  return pending;
}

void SmpClient::cancel(Instant now) { static_cast<void>(take_back(now)); }

void SmpClient::give_up(Instant now) {
  for (const auto& [serial, pending] : take_back(now)) {
    pending.handler(pending.request, {}, now);
  }
}

}  // namespace weft::subnet
