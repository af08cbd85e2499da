#include "wire/iwpm/attributes.h"

namespace weft::wire::iwpm {
namespace {

[[nodiscard]] Result<void> check(const netlink::Attribute& attribute, const AttributePolicy& policy,
                                 std::string_view message_type) {
  const std::size_t octets = attribute.value.size();
  switch (policy.kind) {
    case AttributeKind::Number:
      if (octets == policy.octets) {
        return {};
      }
      break;
    case AttributeKind::Text:
      if (octets <= policy.octets && attribute.text()) {
        return {};
      }
      break;
    case AttributeKind::Address:
      if (octets >= policy.octets) {
        return {};
      }
      break;
  }
  return fail(ErrorCode::InvalidArgument, "{}: attribute {} cannot have these {} octets",
              message_type, policy.name, octets);
}

}  // namespace

Result<void> validate_attributes(const AttributeTable& table, std::size_t count) {
  for (std::size_t number = 1; number < count && number < table.size(); ++number) {
    if (!table[number]) {
      return fail(ErrorCode::InvalidArgument, "attribute {} of {} is missing", number, count - 1);
    }
  }
  return {};
}

Result<AttributeTable> parse_attributes(ByteSpan payload, std::span<const AttributePolicy> policy,
                                        std::uint16_t abi, std::string_view message_type) {
  std::size_t count = 1;
  for (const AttributePolicy& one : policy) {
    count += one.since_abi <= abi ? 1U : 0U;
  }
  AttributeTable table;
  for (const netlink::Attribute& attribute : netlink::parse_attributes(payload)) {
    if (attribute.type == 0 || attribute.type >= count) {
      continue;
    }
    if (const auto good = check(attribute, policy[attribute.type - 1U], message_type); !good) {
      return std::unexpected(good.error());
    }
    table[attribute.type] = attribute;
  }
  if (const auto all = validate_attributes(table, count); !all) {
    return fail(ErrorCode::InvalidArgument, "{}: {}", message_type, all.error().reason);
  }
  return table;
}

}  // namespace weft::wire::iwpm
