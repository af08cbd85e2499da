#include "ulp/srp/transfer_plan.h"

#include <utility>

namespace weft::srp {
namespace {

[[nodiscard]] Result<void> check_sum(const std::vector<Segment>& segments, std::uint64_t bytes) {
  std::uint64_t sum = 0;
  for (const Segment& one : segments) {
    sum += one.length;
  }
  if (sum != bytes) {
    return fail(ErrorCode::InvalidArgument, "descriptors of {} octets for {} octets of data", sum,
                bytes);
  }
  return {};
}

[[nodiscard]] Result<Transfer> plan(wire::SrpDataBuffer buffer, std::uint64_t max_bytes) {
  if (buffer.length > max_bytes) {
    return fail(ErrorCode::OutOfMemory, "{} octets of data, at most {} are moved at once",
                buffer.length, max_bytes);
  }
  if (buffer.format == wire::SrpBufferFormat::Indirect &&
      buffer.descriptors.size() < buffer.table_descriptors()) {
    if (buffer.table_descriptors() > kMaxTableDescriptors) {
      return fail(ErrorCode::InvalidArgument, "a table of {} descriptors, {} are read at most",
                  buffer.table_descriptors(), kMaxTableDescriptors);
    }
    return Transfer{.bytes = buffer.length, .table = buffer.table};
  }
  Transfer transfer{.bytes = buffer.length, .segments = std::move(buffer.descriptors)};
  if (buffer.format != wire::SrpBufferFormat::Immediate) {
    if (const auto agrees = check_sum(transfer.segments, transfer.bytes); !agrees) {
      return std::unexpected(agrees.error());
    }
  }
  return transfer;
}

}  // namespace

Result<void> Transfer::set_table(ByteSpan octets) {
  segments = wire::parse_descriptors(octets);
  table.reset();
  return check_sum(segments, bytes);
}

Result<TransferPlan> plan_transfer(wire::SrpDataBuffer data_out, wire::SrpDataBuffer data_in,
                                   std::uint64_t max_bytes) {
  auto out = plan(std::move(data_out), max_bytes);
  if (!out) {
    return std::unexpected(out.error());
  }
  auto in = plan(std::move(data_in), max_bytes);
  if (!in) {
    return std::unexpected(in.error());
  }
  return TransferPlan{.out = *std::move(out), .in = *std::move(in)};
}

}  // namespace weft::srp
