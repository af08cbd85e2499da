#include "core/srq.h"

#include <fmt/format.h>

#include <memory>

#include "core/device.h"
#include "core/xrcd.h"

namespace weft::core {

void Srq::dispatch(const Event& event) const {
  if (init_.event_handler != nullptr) {
    init_.event_handler(event, init_.context);
  }
}

Result<Srq*> create_srq(Pd& pd, SrqInit& init) {
  Device& device = pd.device();
  if (device.operations().create_srq == nullptr) {
    return fail(ErrorCode::NotSupported, "{} has no SRQs", device.name());
  }
  const bool is_xrc = init.type == SrqType::Xrc;
  if (is_xrc && (init.xrcd == nullptr || init.cq == nullptr)) {
    return fail(ErrorCode::InvalidArgument, "an XRC SRQ has an XRC domain and a CQ");
  }
  const DeviceAttributes& limits = device.attributes();
  if (init.attributes.max_wr > limits.max_srq_wr || init.attributes.max_sge > limits.max_srq_sge) {
    return fail(
        ErrorCode::InvalidArgument, "an SRQ of {} receives of {} elements; the device has {} of {}",
        init.attributes.max_wr, init.attributes.max_sge, limits.max_srq_wr, limits.max_srq_sge);
  }
  auto srq = std::make_unique<Srq>(pd, init);
  if (const auto made = device.operations().create_srq(*srq, init.attributes, init.user_data);
      !made) {
    return std::unexpected(made.error());
  }
  pd.hold();
  if (is_xrc) {
    init.xrcd->hold();
    init.cq->hold();
  }
  device.add_resource(*srq);
  return srq.release();
}

Result<void> modify_srq(Srq& srq, std::optional<std::uint32_t> max_wr,
                        std::optional<std::uint32_t> limit) {
  if (srq.device().operations().modify_srq == nullptr) {
    return fail(ErrorCode::NotSupported, "{} changes no SRQs", srq.device().name());
  }
  return srq.device().operations().modify_srq(srq, max_wr, limit);
}

Result<SrqAttributes> query_srq(Srq& srq) {
  if (srq.device().operations().query_srq == nullptr) {
    return fail(ErrorCode::NotSupported, "{} tells nothing of SRQs", srq.device().name());
  }
  return srq.device().operations().query_srq(srq);
}

Result<void> destroy_srq(Srq& srq) {
  Device& device = srq.device();
  if (const std::uint32_t uses = srq.uses(); uses != 0) {
    return fail(ErrorCode::Busy, "{} QPs receive from the SRQ; destroy those first", uses);
  }
  if (auto gone = device.operations().destroy_srq(srq); !gone) {
    return gone;
  }
  device.remove_resource(srq);
  srq.pd().put();
  if (srq.type() == SrqType::Xrc) {
    srq.xrcd()->put();
    srq.cq()->put();
  }
  std::unique_ptr<Srq>{&srq}.reset();
  return {};
}

Result<void> post_srq_recv(Srq& srq, const RecvWr& first, const RecvWr** bad) {
  const RecvWr* unused = nullptr;
  return srq.device().operations().post_srq_recv(srq, first, bad != nullptr ? bad : &unused);
}

}  // namespace weft::core
