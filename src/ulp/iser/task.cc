#include "ulp/iser/task.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "wire/iscsi/basic_header.h"

namespace weft::iser {

MutableByteSpan Task::allocate_pdu(wire::iscsi::Opcode opcode) {
  WEFT_ASSERT(!is_sent, "a task has one PDU");
  if (descriptor == nullptr) {
    descriptor = std::make_shared<TransmitDescriptor>();
  }
  const MutableByteSpan place = descriptor->pdu_headers();
  std::ranges::fill(place, std::byte{});
  const auto header = wire::pack(wire::iscsi::BasicHeader{.opcode = opcode});
  std::ranges::copy(header, place.begin());
  has_allocated_pdu = true;
  return place;
}

ByteSpan Task::allocated_headers() const {
  WEFT_ASSERT(has_allocated_pdu, "the PDU was allocated");
  const ByteSpan place = descriptor->pdu_headers();
  const auto header =
      wire::unpack<wire::iscsi::BasicHeader>(place.first<wire::iscsi::kHeaderBytes>());
  return place.first(wire::iscsi::kHeaderBytes + std::size_t{header.total_ahs_length} * 4);
}

ProtectionVerdict check_protection(const Task& task, std::uint64_t& block) {
  return task.protection ? verdict_of(*task.protection, task.protection_status, block)
                         : ProtectionVerdict::None;
}

}  // namespace weft::iser
