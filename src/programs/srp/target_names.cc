#include "programs/srp/target_names.h"

#include <charconv>
#include <system_error>

namespace weft::programs::srp {
namespace {

constexpr std::size_t kHalf = 8;
constexpr std::size_t kExtensionDigits = 16;

[[nodiscard]] std::uint64_t half_of(const wire::SrpPortId& id, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kHalf; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(id[at + i]);
  }
  return value;
}

[[nodiscard]] Result<std::uint64_t> parse_extension(const std::string& name) {
  std::string_view digits{name};
  if (digits.starts_with("0x")) {
    digits.remove_prefix(2);
  }
  std::uint64_t extension = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, extension, 16);
  if (digits.empty() || digits.size() > kExtensionDigits || error != std::errc{} || stop != end) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is no name of an SRP target: it is an identifier extension, up to {} "
                "hexadecimal digits",
                name, kExtensionDigits);
  }
  return extension;
}

}  // namespace

wire::SrpPortId port_id_of(std::uint64_t extension, Guid guid) {
  wire::SrpPortId id{};
  for (std::size_t i = 0; i < kHalf; ++i) {
    id[i] = static_cast<std::byte>(extension >> (56 - 8 * i));
    id[kHalf + i] = static_cast<std::byte>(guid.value() >> (56 - 8 * i));
  }
  return id;
}

std::uint64_t extension_of(const wire::SrpPortId& id) { return half_of(id, 0); }

Guid guid_of(const wire::SrpPortId& id) { return Guid{half_of(id, kHalf)}; }

Result<TargetNames> names_of(const iscsi::TargetConfiguration& target, Guid ioc_guid) {
  if (!target.chap_file.empty()) {
    return fail(ErrorCode::InvalidArgument,
                "SRP has no CHAP: who may log in is a list of identifiers ('initiators')");
  }
  std::uint64_t extension = ioc_guid.value();
  if (!target.name.empty()) {
    const auto parsed = parse_extension(target.name);
    if (!parsed) {
      return std::unexpected(parsed.error());
    }
    extension = *parsed;
  }
  TargetNames names{.port_id = port_id_of(extension, ioc_guid)};
  for (const std::string& text : target.initiators) {
    auto name = weft::srp::parse_access_name(text);
    if (!name) {
      return std::unexpected(name.error());
    }
    names.allowed.push_back(*std::move(name));
  }
  return names;
}

}  // namespace weft::programs::srp
