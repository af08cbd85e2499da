#include "core/rdma_rw.h"

#include <algorithm>

#include "base/assert.h"
#include "core/device.h"
#include "core/rdma_rw_sizing.h"

namespace weft::core {
namespace {

constexpr std::uint32_t kPage = 4'096;  // policy: what regions of contexts are mapped by

[[nodiscard]] std::size_t elements_per_request(const Qp& qp, DmaDirection direction) {
  const std::uint32_t most = qp.init().capabilities.max_send_sge;
  return std::max(1U, direction == DmaDirection::ToDevice
                          ? most
                          : std::min(most, qp.device().attributes().max_sge_read));
}

[[nodiscard]] SendWr request_of(const RdmaTransfer& transfer, std::span<const verbs::Sge> sges,
                                std::uint64_t remote_address) {
  SendWr wr;
  wr.opcode = transfer.direction == DmaDirection::ToDevice ? verbs::WrOpcode::RdmaWrite
                                                           : verbs::WrOpcode::RdmaRead;
  wr.sges = sges;
  wr.remote_address = remote_address;
  wr.rkey = transfer.rkey;
  return wr;
}

std::unexpected<Error> no_region(const MrPool& pool) {
  return fail(ErrorCode::TryAgain, "all {} regions of the QP's pool are in use", pool.size());
}

}  // namespace

RdmaContext::~RdmaContext() {
  WEFT_ASSERT(qp_ == nullptr, "a context is destroyed after its completion, and then goes");
}

Result<void> RdmaContext::begin(Qp& qp, const RdmaTransfer& transfer,
                                std::span<const ScatterEntry> protection) {
  WEFT_ASSERT(qp_ == nullptr, "a context has one transfer at a time");
  if (auto mapped = map_for_dma(qp.device(), transfer.list, transfer.direction); !mapped) {
    return mapped;
  }
  if (!protection.empty()) {
    if (auto mapped = map_for_dma(qp.device(), protection, transfer.direction); !mapped) {
      unmap_from_dma(qp.device(), transfer.list, transfer.direction);
      return mapped;
    }
  }
  qp_ = &qp;
  direction_ = transfer.direction;
  list_ = transfer.list;
  protection_ = protection;
  return {};
}

Result<std::uint32_t> RdmaContext::init(Qp& qp, PortNumber port, const RdmaTransfer& transfer) {
  if (const auto begun = begin(qp, transfer, {}); !begun) {
    return std::unexpected(begun.error());
  }
  auto entries = prepare(port, transfer);
  if (!entries) {
    destroy();
  }
  return entries;
}

Result<std::uint32_t> RdmaContext::init_signature(Qp& qp, PortNumber port,
                                                  const RdmaTransfer& transfer,
                                                  const RdmaProtection& protection) {
  const std::uint32_t most = pages_of_context_region(qp.device(), true);
  if (transfer.list.size() > most || protection.list.size() > most) {
    return fail(ErrorCode::InvalidArgument,
                "{} elements of data and {} of protection information; a region has {} of each",
                transfer.list.size(), protection.list.size(), most);
  }
  if (const auto begun = begin(qp, transfer, protection.list); !begun) {
    return std::unexpected(begun.error());
  }
  has_signature_ = true;
  auto entries = prepare_signature(port, transfer, protection);
  if (!entries) {
    destroy();
  }
  return entries;
}

Result<std::uint32_t> RdmaContext::prepare(PortNumber port, const RdmaTransfer& transfer) {
  std::span<const ScatterEntry> list = transfer.list;
  std::uint32_t offset = transfer.offset;
  while (!list.empty() && offset >= list.front().length) {
    offset -= list.front().length;
    list = list.subspan(1);
  }
  if (list.empty()) {
    return fail(ErrorCode::Io, "nothing to transfer: the list ends {} bytes before offset {}",
                offset, transfer.offset);
  }
  if (context_uses_regions(qp_->device(), transfer.direction, list.size())) {
    return prepare_regions(port, list, offset, transfer);
  }
  return prepare_requests(list, offset, transfer);
}

std::uint32_t RdmaContext::prepare_requests(std::span<const ScatterEntry> list,
                                            std::uint32_t offset, const RdmaTransfer& transfer) {
  sges_.reserve(list.size());
  for (const ScatterEntry& element : list) {
    sges_.push_back({.address = element.address + offset,
                     .length = element.length - offset,
                     .lkey = qp_->pd()->local_dma_lkey()});
    offset = 0;
  }
  const std::size_t most = elements_per_request(*qp_, transfer.direction);
  std::uint64_t remote_address = transfer.remote_address;
  requests_.reserve((list.size() + most - 1) / most);  // they point to each other
  for (std::span<const verbs::Sge> left{sges_}; !left.empty();) {
    const auto part = left.first(std::min(most, left.size()));
    left = left.subspan(part.size());
    requests_.push_back(request_of(transfer, part, remote_address));
    if (requests_.size() > 1) {
      requests_[requests_.size() - 2].next = &requests_.back();
    }
    for (const verbs::Sge& sge : part) {
      remote_address += sge.length;
    }
  }
  return static_cast<std::uint32_t>(requests_.size());
}

Result<std::uint32_t> RdmaContext::prepare_regions(PortNumber port,
                                                   std::span<const ScatterEntry> list,
                                                   std::uint32_t offset,
                                                   const RdmaTransfer& transfer) {
  const std::size_t most =
      std::max(1U, pages_of_context_region(qp_->device(), qp_->is_integrity_enabled()));
  registrations_.resize((list.size() + most - 1) / most);
  std::uint64_t remote_address = transfer.remote_address;
  std::uint32_t entries = 0;
  Registration* previous = nullptr;
  for (Registration& registration : registrations_) {
    registration.mr = qp_->rdma_mrs.get();
    if (registration.mr == nullptr) {
      return no_region(qp_->rdma_mrs);
    }
    Mr& mr = *registration.mr;
    const auto part = list.first(std::min(most, list.size()));
    const auto mapped = map_mr_sg(mr, part, &offset, kPage);
    if (!mapped || *mapped < part.size()) {
      return fail(ErrorCode::InvalidArgument,
                  "a region shows {} of {} elements; others have to begin and end with a page",
                  mapped.value_or(0), part.size());
    }
    entries += complete(registration, port, mr.length, remote_address, transfer);
    if (previous != nullptr) {
      previous->transfer.next =
          registration.is_invalidated_first ? &registration.invalidate : &registration.enroll;
    }
    previous = &registration;
    remote_address += mr.length;
    list = list.subspan(part.size());
    offset = 0;
  }
  return entries;
}

Result<std::uint32_t> RdmaContext::prepare_signature(PortNumber port, const RdmaTransfer& transfer,
                                                     const RdmaProtection& protection) {
  registrations_.resize(1);
  Registration& registration = registrations_.front();
  registration.mr = qp_->signature_mrs.get();
  if (registration.mr == nullptr) {
    return no_region(qp_->signature_mrs);
  }
  Mr& mr = *registration.mr;
  *mr.signature = protection.attributes;
  const auto mapped = map_mr_sg_pi(mr, {.list = transfer.list}, {.list = protection.list}, kPage);
  if (!mapped) {
    return std::unexpected(mapped.error());
  }
  const std::uint32_t entries =
      complete(registration, port, mr.length, transfer.remote_address, transfer);
  registration.enroll.opcode = verbs::WrOpcode::RegisterMemoryIntegrity;
  return entries;
}

/// The requests around a region that is mapped; how many.
std::uint32_t RdmaContext::complete(Registration& registration, PortNumber port,
                                    std::uint64_t length, std::uint64_t remote_address,
                                    const RdmaTransfer& transfer) {
  const bool is_iwarp = qp_->device().port_can(port, PortCapability::ProtocolIwarp);
  Mr& mr = *registration.mr;
  registration.is_invalidated_first = mr.needs_invalidation;
  registration.key_before = mr.rkey.value();
  registration.invalidate.opcode = verbs::WrOpcode::LocalInvalidate;
  registration.invalidate.invalidate_rkey = mr.rkey;
  registration.invalidate.next = &registration.enroll;
  registration.enroll.opcode = verbs::WrOpcode::RegisterMemory;
  registration.enroll.mr = &mr;
  registration.enroll.access = verbs::Access::LocalWrite;
  if (is_iwarp) {  // whose READ responses are the peer's writes
    registration.enroll.access |= verbs::Access::RemoteWrite;
  }
  registration.enroll.next = &registration.transfer;
  registration.sge = {.address = mr.iova, .length = static_cast<std::uint32_t>(length)};
  registration.transfer = request_of(transfer, {&registration.sge, 1}, remote_address);
  if (is_iwarp && transfer.direction == DmaDirection::FromDevice) {
    registration.transfer.opcode = kRdmaReadWithInvalidate;
  }
  return registration.is_invalidated_first ? 3 : 2;
}

const SendWr& RdmaContext::work_requests(const CompletionHandler* handler, const SendWr* chain) {
  WEFT_ASSERT(qp_ != nullptr, "the context has been made for a transfer");
  WEFT_ASSERT(handler != nullptr || chain != nullptr, "somebody is told of the end");
  for (Registration& registration : registrations_) {
    Mr& mr = *registration.mr;
    update_fast_registration_key(mr, static_cast<std::uint8_t>(next_key(mr.rkey.value())));
    mr.needs_invalidation = registration.transfer.opcode != kRdmaReadWithInvalidate;
    registration.enroll.key = mr.rkey.value();
    registration.sge.lkey = mr.lkey;
    registration.transfer.invalidate_rkey = mr.rkey;
  }
  SendWr& last = registrations_.empty() ? requests_.back() : registrations_.back().transfer;
  if (handler != nullptr) {
    last.wr_id = wr_id_of(*handler);
  }
  if (chain != nullptr) {
    last.next = chain;
  } else {
    last.flags |= verbs::Send::Signaled;
  }
  if (registrations_.empty()) {
    return requests_.front();
  }
  const Registration& first = registrations_.front();
  return first.is_invalidated_first ? first.invalidate : first.enroll;
}

Result<void> RdmaContext::post(const CompletionHandler* handler, const SendWr* chain) {
  const SendWr* bad = nullptr;
  auto posted = post_send(*qp_, work_requests(handler, chain), &bad);
  if (!posted) {
    forget_unposted(bad);
  }
  return posted;
}

void RdmaContext::forget_unposted(const SendWr* bad) {
  bool is_posted = true;
  const auto was_posted = [&](const SendWr& wr) {
    is_posted = is_posted && &wr != bad;
    return is_posted;
  };
  for (Registration& registration : registrations_) {
    const bool is_invalidated =
        registration.is_invalidated_first && was_posted(registration.invalidate);
    if (!was_posted(registration.enroll)) {
      Mr& mr = *registration.mr;
      update_fast_registration_key(mr, static_cast<std::uint8_t>(registration.key_before));
      mr.needs_invalidation = registration.is_invalidated_first && !is_invalidated;
    }
    static_cast<void>(was_posted(registration.transfer));
  }
}

void RdmaContext::destroy() {
  if (qp_ == nullptr) {
    return;
  }
  MrPool& pool = has_signature_ ? qp_->signature_mrs : qp_->rdma_mrs;
  for (const Registration& registration : registrations_) {
    if (registration.mr != nullptr) {
      pool.put(*registration.mr);
    }
  }
  if (!protection_.empty()) {
    unmap_from_dma(qp_->device(), protection_, direction_);
  }
  unmap_from_dma(qp_->device(), list_, direction_);
  registrations_.clear();
  requests_.clear();
  sges_.clear();
  has_signature_ = false;
  qp_ = nullptr;
}

Mr* RdmaContext::signature_region() const {
  return has_signature_ ? registrations_.front().mr : nullptr;
}

}  // namespace weft::core
