#include "sim/cm_qp.h"

#include <algorithm>
#include <array>

namespace weft::sim {
namespace {

constexpr std::uint64_t kFirstAddress = 0x1000'0000;
// flag in a work request's id; the low bits are the slot
constexpr std::uint64_t kReceive = 1ULL << 32;

}  // namespace

Result<std::unique_ptr<CmQp>> CmQp::create(hca::Hca& hca, hca::ProtectionDomain& pd,
                                           Psn starting_psn, std::size_t max_bytes) {
  auto made = std::unique_ptr<CmQp>{
      new CmQp{hca, starting_psn, max_bytes}
  };
  made->region_ =
      *hca.register_memory(pd, kFirstAddress, made->memory_,
                           hca::AccessFlags{hca::Access::LocalWrite} | hca::Access::RemoteWrite);
  made->cq_ = *hca.create_cq(4 * kDepth);
  hca::QpInit init;
  init.pd = &pd;
  init.send_cq = init.recv_cq = made->cq_;
  init.signal_all = true;
  init.capabilities = {
      .max_send_wr = kDepth, .max_recv_wr = kDepth, .max_send_sge = 1, .max_recv_sge = 1};
  const auto qp = hca.create_qp(init);
  if (!qp) {
    return std::unexpected(qp.error());
  }
  made->qp_ = *qp;
  return made;
}

CmQp::~CmQp() {
  if (qp_ != nullptr) {
    static_cast<void>(hca_.destroy_qp(*qp_));
  }
  static_cast<void>(hca_.destroy_cq(*cq_));
  static_cast<void>(hca_.deregister_memory(*region_));
}

Result<void> CmQp::modify(const verbs::QpModification& to) {
  if (auto modified = qp_->modify(to.attributes, to.mask); !modified) {
    return modified;
  }
  const bool is_init =
      to.mask.has(verbs::QpAttribute::State) && to.attributes.state == verbs::QpState::Init;
  for (std::size_t slot = 0; is_init && slot < kDepth; ++slot) {
    if (auto posted = post_receive(slot); !posted) {
      return posted;
    }
  }
  return {};
}

Result<void> CmQp::migrate() {
  hca::QpAttributes migrated;
  migrated.migration = hca::MigrationState::Migrated;
  return qp_->modify(migrated, hca::QpAttribute::PathMigrationState);
}

void CmQp::enter_error() {
  hca::QpAttributes error;
  error.state = hca::QpState::Err;
  static_cast<void>(qp_->modify(error, hca::QpAttribute::State));  // fails if it never left RESET
}

hca::Sge CmQp::element(std::size_t slot, std::size_t bytes) const {
  return {.address = region_->iova + slot * max_bytes_,
          .length = static_cast<std::uint32_t>(bytes),
          .lkey = region_->lkey};
}

Result<void> CmQp::post_receive(std::size_t slot) {
  const std::array sges{element(slot, max_bytes_)};
  return qp_->post_recv({.wr_id = kReceive | slot, .sges = sges});
}

Result<void> CmQp::send(ByteSpan message) {
  const std::size_t slot = kDepth + posted_ % kDepth;
  copy_bytes(std::span{memory_}.subspan(slot * max_bytes_, message.size()), message);
  const std::array sges{element(slot, message.size())};
  hca::SendWr wr;
  wr.sges = sges;
  auto posted = qp_->post_send(wr);
  posted_ += posted ? 1 : 0;
  return posted;
}

Result<void> CmQp::probe() {
  hca::SendWr wr;
  wr.opcode = hca::WrOpcode::RdmaWrite;
  auto posted = qp_->post_send(wr);
  posted_ += posted ? 1 : 0;
  return posted;
}

CmQp::Completions CmQp::poll() {
  Completions polled;
  std::array<hca::Wc, 4 * kDepth> completions{};
  const std::size_t count = cq_->poll(completions);
  for (const hca::Wc& wc : std::span{completions}.first(count)) {
    const bool is_receive = (wc.wr_id & kReceive) != 0;
    completed_ += is_receive ? 0 : 1;
    if (wc.status != hca::WcStatus::Success) {
      polled.has_failed = true;
      continue;
    }
    polled.has_completed = polled.has_completed || !is_receive;
    if (is_receive) {
      const std::size_t slot = wc.wr_id & 0xFF;
      const auto bytes = std::span{memory_}.subspan(slot * max_bytes_, wc.byte_length);
      polled.messages.emplace_back(bytes.begin(), bytes.end());
      static_cast<void>(post_receive(slot));  // fails if the QP is in error
    }
  }
  return polled;
}

}  // namespace weft::sim
