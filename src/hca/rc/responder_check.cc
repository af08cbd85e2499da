
#include "base/assert.h"
#include "hca/atomic_operation.h"
#include "hca/rc/responder.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

using wire::Operation;
using wire::Position;

[[nodiscard]] bool starts(const wire::OpcodeInfo& info) {
  return info.position == Position::First || info.position == Position::Only;
}

[[nodiscard]] bool is_message(Operation operation) {
  return operation == Operation::Send || operation == Operation::RdmaWrite;
}

/// The reason for a refused R_Key.
[[nodiscard]] std::string_view refusal_reason(KeyFault fault) {
  switch (fault) {
    case KeyFault::NoSuchKey:
      return "no memory has this R_Key";
    case KeyFault::OtherPd:
      return "the R_Key belongs to another PD than the QP";
    case KeyFault::Invalidated:
      return "the R_Key was invalidated";
    case KeyFault::OtherQp:
      return "the R_Key is a window's that another QP bound";
    case KeyFault::OutOfRange:
      return "the range leaves the memory region or window";
    case KeyFault::MissingAccess:
      return "the access flags of region or window lack it";
    case KeyFault::OtherProcess:
      return "the R_Key is an imported region's, whose memory this process has not mapped";
    case KeyFault::None:
    case KeyFault::CannotInvalidate:
      break;
  }
  return "the R_Key cannot be used so";
}

}  // namespace

/// The checks of IBTA vol 1 §9.7.4.1 after that of the PSN: opcode sequence, opcode and permission,
/// resources, length, key.
RcResponder::Refusal RcResponder::check(const Packet& packet) const {
  const wire::OpcodeInfo* first = wire::opcode_info(packet.header.opcode);
  const wire::OpcodeInfo* last = wire::opcode_info(packet.header.last_opcode);
  WEFT_DEBUG_ASSERT(first != nullptr && last != nullptr,
                    "opcodes of one kind have a first and a last packet");
  const bool ends = last->position == Position::Last || last->position == Position::Only;
  if (const Refusal refusal = check_sequence(*first); refusal.fault != RcFault::None) {
    return refusal;
  }
  if (const Refusal refusal = check_xrceth(packet); refusal.fault != RcFault::None) {
    return refusal;
  }
  if (const Refusal refusal = check_permission(packet.header, *first);
      refusal.fault != RcFault::None) {
    return refusal;
  }
  if (first->operation == Operation::RdmaReadRequest || !is_message(first->operation)) {
    if (pending_count_ - repeats_ >= core_.attributes.max_dest_rd_atomic) {
      return {RcFault::TooManyReads, "more READs and atomics outstanding than max_dest_rd_atomic"};
    }
  }
  const bool needs_receive = (first->operation == Operation::Send && starts(*first)) ||
                             (first->operation == Operation::RdmaWrite && ends &&
                              last->headers.has(wire::ExtensionHeader::Immediate));
  if (needs_receive && !const_cast<RcResponder*>(this)->ensure_receive_wqe()) {
    if (target_.xrc_srq != nullptr && target_.xrc_srq->is_in_error()) {
      return {RcFault::LocalQpOperation, "the XRC SRQ is in error: the CQ of its receives overran"};
    }
    return {RcFault::ReceiverNotReady, "no receive WQE is posted"};
  }
  if (const Refusal refusal = check_length(packet, *first, ends); refusal.fault != RcFault::None) {
    return refusal;
  }
  return check_key(packet, *first);
}

RcResponder::Refusal RcResponder::check_sequence(const wire::OpcodeInfo& first) const {
  if (!message_.active) {
    if (is_message(first.operation) && !starts(first)) {
      return {RcFault::OpcodeSequence, "a Middle or Last packet without a First"};
    }
    return {};
  }
  const bool continues = is_message(first.operation) && !starts(first) &&
                         (first.operation == Operation::RdmaWrite) == message_.is_write;
  return continues
             ? Refusal{}
             : Refusal{RcFault::OpcodeSequence, "another request before the message's last packet"};
}

RcResponder::Refusal RcResponder::check_xrceth(const Packet& packet) const {
  if (core_.xrcd == nullptr) {
    return {};
  }
  if (target_.xrc_srq == nullptr) {
    return {RcFault::InvalidXrceth,
            "no XRC SRQ of the target QP's XRC domain has the number in the XRCETH"};
  }
  return message_.active && message_.xrc_srqn != packet.header.xrc_srqn
             ? Refusal{RcFault::InvalidXrceth, "the packets of one message name different XRC SRQs"}
             : Refusal{};
}

/// Annex A19: the QP's access flags have a bit for each placement.
RcResponder::Refusal RcResponder::check_flush_permission(const wire::Feth& feth) const {
  constexpr std::uint32_t kKnown = wire::kPlacementGlobal | wire::kPlacementPersistent;
  if (feth.placement == 0 || (feth.placement & ~kKnown) != 0 ||
      feth.selectivity > static_cast<std::uint32_t>(wire::FlushSelectivity::Region)) {
    return {RcFault::OpcodeUnsupported, "a FLUSH with reserved codes in its FETH"};
  }
  return core_.attributes.access.has_all(access_to_flush(feth.placement))
             ? Refusal{}
             : Refusal{RcFault::NotPermitted, "the QP's access flags lack this kind of flush"};
}

RcResponder::Refusal RcResponder::check_permission(const PacketHeader& header,
                                                   const wire::OpcodeInfo& info) const {
  const AccessFlags access = core_.attributes.access;
  switch (info.operation) {
    case Operation::Send:
      return {};
    case Operation::RdmaWrite:
    case Operation::AtomicWrite:
      return access.has(Access::RemoteWrite)
                 ? Refusal{}
                 : Refusal{RcFault::NotPermitted, "the QP's access flags lack remote write"};
    case Operation::RdmaReadRequest:
      return access.has(Access::RemoteRead)
                 ? Refusal{}
                 : Refusal{RcFault::NotPermitted, "the QP's access flags lack remote read"};
    case Operation::Flush:
      return check_flush_permission(header.extension.flush.feth);
    case Operation::CompareSwap:
    case Operation::FetchAdd:
      return access.has(Access::RemoteAtomic)
                 ? Refusal{}
                 : Refusal{RcFault::NotPermitted, "the QP's access flags lack remote atomic"};
    default:
      return {RcFault::OpcodeUnsupported, "the operation is no RC request that this device offers"};
  }
}

RcResponder::Refusal RcResponder::check_length(const Packet& packet, const wire::OpcodeInfo& first,
                                               bool ends) const {
  const std::size_t mtu = core_.mtu_bytes();
  const std::size_t bytes = packet.payload.size();
  if (first.operation == Operation::AtomicWrite) {
    return bytes == kAtomicBytes && packet.header.extension.reth.dma_length == kAtomicBytes
               ? Refusal{}
               : Refusal{RcFault::Length, "an ATOMIC WRITE of another length than 8 bytes"};
  }
  if (first.operation == Operation::Flush && packet.header.extension.reth.dma_length > (1U << 31)) {
    return {RcFault::Length, "a FLUSH of more than 2^31 bytes"};
  }
  if (!is_message(first.operation)) {
    return bytes == 0 ? Refusal{}
                      : Refusal{RcFault::Length, "a READ, atomic or FLUSH request with a payload"};
  }
  const std::size_t most = mtu * packet.header.packet_count;
  if (bytes > most || (!ends && bytes != most) || (ends && !starts(first) && bytes + mtu <= most)) {
    return {RcFault::Length,
            "a packet's payload does not fit the path MTU and its place in the message"};
  }
  const std::uint64_t before = starts(first) ? 0 : message_.bytes;
  if (first.operation == Operation::Send) {
    return before + bytes <= core_.current_receive.length
               ? Refusal{}
               : Refusal{RcFault::Length, "the message is longer than the receive WQE's buffers"};
  }
  const std::uint32_t length =
      starts(first) ? packet.header.extension.reth.dma_length : message_.length;
  if (length > (1U << 31) || (ends ? before + bytes != length : before + bytes >= length)) {
    return {RcFault::Length, "the WRITE's bytes differ from DMALen"};
  }
  return {};
}

RcResponder::Refusal RcResponder::check_key(const Packet& packet,
                                            const wire::OpcodeInfo& first) const {
  const auto refused = [](KeyFault fault) {
    return fault == KeyFault::None ? Refusal{}
                                   : Refusal{RcFault::RKeyViolation, refusal_reason(fault)};
  };
  switch (first.operation) {
    case Operation::RdmaWrite: {
      const bool begins = starts(first);
      const wire::Reth reth = begins ? packet.header.extension.reth : wire::Reth{};
      const std::uint64_t address =
          begins ? reth.virtual_address : message_.address + message_.bytes;
      const std::uint64_t length = begins ? reth.dma_length : packet.payload.size();
      return refused(core_
                         .find_for_peer(*target_.pd, begins ? reth.rkey : message_.rkey, address,
                                        length, Access::RemoteWrite)
                         .fault);
    }
    case Operation::RdmaReadRequest: {
      const wire::Reth reth = packet.header.extension.reth;
      if (reth.dma_length > (1U << 31)) {
        return {RcFault::Length, "a READ of more than 2^31 bytes"};
      }
      return refused(core_
                         .find_for_peer(*target_.pd, reth.rkey, reth.virtual_address,
                                        reth.dma_length, Access::RemoteRead)
                         .fault);
    }
    case Operation::AtomicWrite: {
      const wire::Reth reth = packet.header.extension.reth;
      if (reth.virtual_address % kAtomicBytes != 0) {
        return {RcFault::MisalignedAtomic, "an ATOMIC WRITE's address is not a multiple of 8"};
      }
      return refused(core_
                         .find_for_peer(*target_.pd, reth.rkey, reth.virtual_address, kAtomicBytes,
                                        Access::RemoteWrite)
                         .fault);
    }
    case Operation::Flush:
      return refused(core_.find_to_flush(*target_.pd, packet.header).fault);
    case Operation::CompareSwap:
    case Operation::FetchAdd: {
      const wire::AtomicEth eth = packet.header.extension.atomic_eth;
      if (eth.virtual_address % kAtomicBytes != 0) {
        return {RcFault::MisalignedAtomic, "an atomic's address is not a multiple of 8"};
      }
      return refused(core_
                         .find_for_peer(*target_.pd, eth.rkey, eth.virtual_address, kAtomicBytes,
                                        Access::RemoteAtomic)
                         .fault);
    }
    default:
      return {};
  }
}

}  // namespace weft::hca
