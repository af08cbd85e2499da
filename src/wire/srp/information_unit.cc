#include "wire/srp/information_unit.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace weft::wire {
namespace {

constexpr std::size_t kDescriptorBytes = kSizeOf<SrpDirectDescriptor>;

void append(std::vector<std::byte>& to, ByteSpan octets) {
  to.insert(to.end(), octets.begin(), octets.end());
}

void append_descriptors(std::vector<std::byte>& to,
                        std::span<const SrpDirectDescriptor> descriptors) {
  for (const SrpDirectDescriptor& one : descriptors) {
    append(to, pack(one));
  }
}

/// Takes what T occupies from the front of `rest`; the reason names the whole command's shortage.
template <WireType T>
[[nodiscard]] Result<T> take(ByteSpan& rest) {
  auto value = parse<T>(rest);
  if (!value) {
    value.error().code = ErrorCode::InvalidArgument;
    return value;
  }
  rest = rest.subspan(kSizeOf<T>);
  return value;
}

[[nodiscard]] Result<SrpDataBuffer> take_indirect(ByteSpan& rest, std::uint8_t count) {
  const auto head = take<SrpIndirectDescriptor>(rest);
  if (!head) {
    return std::unexpected(head.error());
  }
  if (head->table.length % kDescriptorBytes != 0 || head->table.length == 0) {
    return fail(ErrorCode::InvalidArgument, "a table of {} octets has no whole descriptors",
                head->table.length);
  }
  const std::size_t listed = head->table.length / kDescriptorBytes;
  if (count > listed) {
    return fail(ErrorCode::InvalidArgument, "{} descriptors in the unit, {} in the whole table",
                count, listed);
  }
  if (rest.size() < count * kDescriptorBytes) {
    return fail(ErrorCode::InvalidArgument, "{} descriptors need {} octets, {} are left", count,
                count * kDescriptorBytes, rest.size());
  }
  SrpDataBuffer buffer{.format = SrpBufferFormat::Indirect,
                       .descriptors = parse_descriptors(rest.first(count * kDescriptorBytes)),
                       .table = head->table,
                       .length = head->total_length};
  rest = rest.subspan(count * kDescriptorBytes);
  return buffer;
}

[[nodiscard]] Result<SrpDataBuffer> take_buffer(ByteSpan& rest, SrpBufferFormat format,
                                                std::uint8_t count) {
  switch (format) {
    case SrpBufferFormat::None:
      return SrpDataBuffer{};
    case SrpBufferFormat::Direct: {
      const auto one = take<SrpDirectDescriptor>(rest);
      if (!one) {
        return std::unexpected(one.error());
      }
      return SrpDataBuffer{.format = format, .descriptors = {*one}, .length = one->length};
    }
    case SrpBufferFormat::Indirect:
      return take_indirect(rest, count);
    case SrpBufferFormat::Immediate: {
      const auto one = take<SrpImmediateDescriptor>(rest);
      if (!one) {
        return std::unexpected(one.error());
      }
      return SrpDataBuffer{.format = format, .length = one->length};
    }
  }
  return fail(ErrorCode::InvalidArgument, "there is no buffer format {}",
              std::to_underlying(format));
}

void append_buffer(std::vector<std::byte>& to, const SrpDataBuffer& buffer) {
  switch (buffer.format) {
    case SrpBufferFormat::None:
      break;
    case SrpBufferFormat::Indirect:
      append(to, pack(SrpIndirectDescriptor{
                     .table = buffer.table,
                     .total_length = static_cast<std::uint32_t>(buffer.length)}));
      [[fallthrough]];
    case SrpBufferFormat::Direct:
      append_descriptors(to, buffer.descriptors);
      break;
    case SrpBufferFormat::Immediate:
      append(to, pack(SrpImmediateDescriptor{.length = static_cast<std::uint32_t>(buffer.length)}));
      break;
  }
}

/// Linux sends 0 with a direct descriptor; so do we.
[[nodiscard]] std::uint8_t count_of(const SrpDataBuffer& buffer) {
  WEFT_ASSERT(buffer.descriptors.size() <= 0xFF, "who builds a list knows the limit of its count");
  return buffer.format == SrpBufferFormat::Indirect
             ? static_cast<std::uint8_t>(buffer.descriptors.size())
             : std::uint8_t{0};
}

}  // namespace

bool SrpCommandUnit::operator==(const SrpCommandUnit& other) const {
  return header == other.header && additional_cdb == other.additional_cdb &&
         data_out == other.data_out && data_in == other.data_in &&
         std::ranges::equal(immediate_data, other.immediate_data);
}

Result<SrpOpcode> srp_opcode(ByteSpan unit) {
  if (unit.empty()) {
    return fail(ErrorCode::Io, "an information unit without octets");
  }
  const auto opcode = static_cast<SrpOpcode>(unit[0]);
  if (name_of(opcode).empty()) {
    return fail(ErrorCode::Io, "SRP has no opcode {:#04x}", std::to_underlying(opcode));
  }
  return opcode;
}

std::vector<SrpDirectDescriptor> parse_descriptors(ByteSpan octets) {
  std::vector<SrpDirectDescriptor> descriptors;
  while (octets.size() >= kDescriptorBytes) {
    descriptors.push_back(unpack<SrpDirectDescriptor>(octets.first<kDescriptorBytes>()));
    octets = octets.subspan(kDescriptorBytes);
  }
  return descriptors;
}

std::vector<std::byte> to_octets(std::span<const SrpDirectDescriptor> descriptors) {
  std::vector<std::byte> octets;
  append_descriptors(octets, descriptors);
  return octets;
}

Result<SrpCommandUnit> parse_srp_command(ByteSpan unit, std::uint16_t immediate_offset) {
  const auto header = parse<SrpCmd>(unit);
  if (!header) {
    return std::unexpected(header.error());
  }
  SrpCommandUnit command{.header = *header};
  ByteSpan rest = unit.subspan(kSizeOf<SrpCmd>);
  const std::size_t additional = std::size_t{4} * header->additional_cdb_words;
  if (rest.size() < additional) {
    return fail(ErrorCode::InvalidArgument, "{} octets of additional CDB, {} are left", additional,
                rest.size());
  }
  command.additional_cdb.assign(rest.begin(),
                                rest.begin() + static_cast<std::ptrdiff_t>(additional));
  rest = rest.subspan(additional);
  if (header->data_in_format == SrpBufferFormat::Immediate) {
    return fail(ErrorCode::InvalidArgument, "immediate data is data-out");
  }
  auto data_out = take_buffer(rest, header->data_out_format, header->data_out_count);
  if (!data_out) {
    return std::unexpected(data_out.error());
  }
  auto data_in = take_buffer(rest, header->data_in_format, header->data_in_count);
  if (!data_in) {
    return std::unexpected(data_in.error());
  }
  command.data_out = *std::move(data_out);
  command.data_in = *std::move(data_in);
  if (command.data_out.format == SrpBufferFormat::Immediate) {
    const std::size_t descriptors_end = unit.size() - rest.size();
    if (immediate_offset < descriptors_end || immediate_offset > unit.size()) {
      return fail(ErrorCode::InvalidArgument, "immediate data at {} of a unit of {} octets",
                  immediate_offset, unit.size());
    }
    if (unit.size() - immediate_offset < command.data_out.length) {
      return fail(ErrorCode::Io, "{} octets of immediate data, {} are there",
                  command.data_out.length, unit.size() - immediate_offset);
    }
    command.immediate_data =
        unit.subspan(immediate_offset, static_cast<std::size_t>(command.data_out.length));
  }
  return command;
}

std::vector<std::byte> to_unit(const SrpCommandUnit& command, std::uint16_t immediate_offset) {
  std::vector<std::byte> unit;
  put_unit(command, immediate_offset, unit);
  return unit;
}

void put_unit(const SrpCommandUnit& command, std::uint16_t immediate_offset,
              std::vector<std::byte>& unit) {
  WEFT_ASSERT(command.additional_cdb.size() % 4 == 0 && command.additional_cdb.size() / 4 < 64,
              "the length of an additional CDB is counted in words of four octets, in six bits");
  SrpCmd header = command.header;
  header.data_out_format = command.data_out.format;
  header.data_in_format = command.data_in.format;
  header.data_out_count = count_of(command.data_out);
  header.data_in_count = count_of(command.data_in);
  header.additional_cdb_words = static_cast<std::uint8_t>(command.additional_cdb.size() / 4);
  unit.clear();
  append(unit, pack(header));
  append(unit, command.additional_cdb);
  append_buffer(unit, command.data_out);
  append_buffer(unit, command.data_in);
  if (command.data_out.format == SrpBufferFormat::Immediate) {
    WEFT_ASSERT(unit.size() <= immediate_offset, "the login's offset leaves room for descriptors");
    unit.resize(immediate_offset);
    append(unit, command.immediate_data);
  }
}

Result<SrpResponseUnit> parse_srp_response(ByteSpan unit) {
  const auto header = parse<SrpRsp>(unit);
  if (!header) {
    return std::unexpected(header.error());
  }
  SrpResponseUnit response{.header = *header};
  ByteSpan rest = unit.subspan(kSizeOf<SrpRsp>);
  if (header->flags.has(SrpResponseFlag::ResponseValid)) {
    if (rest.size() < header->response_length) {
      return fail(ErrorCode::Io, "{} octets of response data, {} are left", header->response_length,
                  rest.size());
    }
    const auto data = parse<SrpResponseData>(rest.first(header->response_length));
    if (data) {
      response.response_code = data->code;
    }
    rest = rest.subspan(header->response_length);
  }
  if (header->flags.has(SrpResponseFlag::SenseValid)) {
    if (rest.size() < header->sense_length) {
      return fail(ErrorCode::Io, "{} octets of sense data, {} are left", header->sense_length,
                  rest.size());
    }
    response.sense = rest.first(header->sense_length);
  }
  return response;
}

std::vector<std::byte> to_unit(const SrpResponseUnit& response) {
  std::vector<std::byte> unit;
  put_unit(response, unit);
  return unit;
}

void put_unit(const SrpResponseUnit& response, std::vector<std::byte>& unit) {
  SrpRsp header = response.header;
  header.flags = header.flags.without(Flags{SrpResponseFlag::ResponseValid} |
                                      Flags{SrpResponseFlag::SenseValid});
  header.response_length = 0;
  header.sense_length = static_cast<std::uint32_t>(response.sense.size());
  if (response.response_code) {
    header.flags |= SrpResponseFlag::ResponseValid;
    header.response_length = kSizeOf<SrpResponseData>;
  }
  if (!response.sense.empty()) {
    header.flags |= SrpResponseFlag::SenseValid;
  }
  unit.clear();
  append(unit, pack(header));
  if (response.response_code) {
    append(unit, pack(SrpResponseData{.code = *response.response_code}));
  }
  append(unit, response.sense);
}

Result<SrpAerUnit> parse_srp_aer(ByteSpan unit) {
  const auto header = parse<SrpAerReq>(unit);
  if (!header) {
    return std::unexpected(header.error());
  }
  const ByteSpan rest = unit.subspan(kSizeOf<SrpAerReq>);
  if (rest.size() < header->sense_length) {
    return fail(ErrorCode::Io, "{} octets of sense data, {} are left", header->sense_length,
                rest.size());
  }
  return SrpAerUnit{.header = *header, .sense = rest.first(header->sense_length)};
}

std::vector<std::byte> to_unit(const SrpAerUnit& event) {
  SrpAerReq header = event.header;
  header.sense_length = static_cast<std::uint32_t>(event.sense.size());
  std::vector<std::byte> unit = to_unit(header);
  append(unit, event.sense);
  return unit;
}

}  // namespace weft::wire
