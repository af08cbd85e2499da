#include "host/object_listing.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "hca/held_objects.h"
#include "host/lane.h"

namespace weft::host {
namespace {

/// The next objects of a list that fit into a message, as the message has them.
template <class To, class From, class Translate>
[[nodiscard]] std::vector<To> take(std::span<const From>& rest, Translate translate) {
  const std::size_t count = std::min(rest.size(), uabi::kMaxHeldObjects);
  std::vector<To> taken;
  taken.reserve(count);
  for (const From& each : rest.first(count)) {
    taken.push_back(translate(each));
  }
  rest = rest.subspan(count);
  return taken;
}

using Held = hca::HeldObjects;

/// What is not told yet of one HCA.
class Rest {
 public:
  /// By QP number: the way that its messages take.
  using Ways = std::map<std::uint32_t, PlacementWay>;

  Rest(const Held& held, const Ways& ways)
      : ways_(ways),
        pds_(held.pds),
        cqs_(held.cqs),
        mrs_(held.mrs),
        srqs_(held.srqs),
        qps_(held.qps) {}

  [[nodiscard]] bool is_empty() const {
    return pds_.empty() && cqs_.empty() && mrs_.empty() && srqs_.empty() && qps_.empty();
  }

  [[nodiscard]] uabi::ObjectsHeld next(std::uint32_t request, std::uint32_t hca) {
    uabi::ObjectsHeld message;
    message.request = request;
    message.hca = hca;
    message.pds = take<uabi::HeldPd>(pds_, [](const Held::Pd& pd) {
      return uabi::HeldPd{.number = pd.number, .uses = pd.uses};
    });
    message.cqs = take<uabi::HeldCq>(cqs_, [](const Held::Cq& cq) {
      return uabi::HeldCq{.number = cq.number, .capacity = cq.capacity, .uses = cq.uses};
    });
    message.mrs = take<uabi::HeldMr>(mrs_, [](const Held::Mr& mr) {
      return uabi::HeldMr{.number = mr.number,
                          .lkey = mr.lkey.value(),
                          .rkey = mr.rkey.value(),
                          .length = mr.length,
                          .pd = mr.pd};
    });
    message.srqs = take<uabi::HeldSrq>(srqs_, [](const Held::Srq& srq) {
      return uabi::HeldSrq{
          .number = srq.number, .is_xrc = srq.is_xrc, .pd = srq.pd, .cq = srq.cq.value_or(0)};
    });
    message.qps = take<uabi::HeldQp>(qps_, [this](const Held::Qp& qp) {
      const auto way = ways_.find(qp.number.value());
      return uabi::HeldQp{
          .number = qp.number,
          .type = std::to_underlying(qp.type),
          .state = std::to_underlying(qp.state),
          .port = qp.port.value(),
          .migration = std::to_underlying(qp.migration),
          .dest = qp.dest,
          .rq_psn = qp.rq_psn.value(),
          .sq_psn = qp.sq_psn.value(),
          .pd = qp.pd,
          .placement = way == ways_.end() ? std::uint8_t{} : std::to_underlying(way->second)};
    });
    return message;
  }

 private:
  const Ways& ways_;
  std::span<const Held::Pd> pds_;
  std::span<const Held::Cq> cqs_;
  std::span<const Held::Mr> mrs_;
  std::span<const Held::Srq> srqs_;
  std::span<const Held::Qp> qps_;
};

}  // namespace

void list_objects(const HcaSet& hcas, const Placements& placements, DaemonChannel& daemon,
                  const uabi::ListObjects& request) {
  for (std::uint32_t hca = 0; hca < hcas.count(); ++hca) {
    const Held held = hcas.engine(hca).held_objects();
    Rest::Ways ways;
    hcas.engine(hca).for_each_qp([&](hca::Qp& qp) {
      if (const auto* const qp_state = static_cast<const QpDriverState*>(qp.driver_data)) {
        ways[qp.number().value()] = placements.is_on()
                                        ? qp_state->placement_way.load(std::memory_order_relaxed)
                                        : PlacementWay::TurnedOff;
      }
    });
    for (Rest rest{held, ways}; !rest.is_empty();) {
      daemon.post(rest.next(request.request, hca));
    }
  }
  uabi::ObjectsHeld last;
  last.request = request.request;
  last.is_last = true;
  daemon.post(std::move(last));
}

}  // namespace weft::host
