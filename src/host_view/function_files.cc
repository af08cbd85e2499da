#include "host_view/function_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weft::host_view {
namespace {

using What = FunctionWrite::What;

constexpr std::string_view kCountFile = "sriov_numvfs";
constexpr std::string_view kTotalFile = "sriov_totalvfs";
constexpr std::string_view kFolder = "sriov";

/// The files of a function.
constexpr auto kFunctionFiles = std::to_array<std::pair<std::string_view, What>>({
    {"node",   What::NodeGuid},
    {"policy", What::Policy  },
    {"port",   What::PortGuid},
});

/// As mlx5 writes one: eight octets.
[[nodiscard]] std::string guid_text(Guid guid) {
  std::string text;
  for (int shift = 56; shift >= 0; shift -= 8) {
    text += fmt::format("{}{:02x}", text.empty() ? "" : ":", guid.value() >> shift & 0xFF);
  }
  return text;
}

[[nodiscard]] std::string content_of(What what, const FunctionView& function) {
  switch (what) {
    case What::NodeGuid:
      return guid_text(function.node_guid);
    case What::PortGuid:
      return guid_text(function.port_guid);
    case What::Policy:
      return std::string{verbs::name_of(function.policy)};
    case What::Count:
      break;  // not a function's
  }
  return {};
}

/// Eight octets of one or two hexadecimal digits. Neither 0 nor all ones, which are no GUIDs.
[[nodiscard]] std::optional<Guid> guid_of(std::string_view text) {
  constexpr int kOctets = 8;
  constexpr int kHexadecimal = 16;
  std::uint64_t value = 0;
  for (int i = 0; i < kOctets; ++i) {
    const std::string_view digits = text.substr(0, text.find(':'));
    unsigned octet = 0;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, octet, kHexadecimal);
    if (error != std::errc{} || end != last || digits.size() > 2) {
      return std::nullopt;
    }
    value = value << 8 | octet;
    text.remove_prefix(digits.size());
    const bool is_last = i == kOctets - 1;
    if (text.empty() != is_last) {
      return std::nullopt;
    }
    text.remove_prefix(is_last ? 0 : 1);
  }
  return value != 0 && value != ~std::uint64_t{0} ? std::optional{Guid{value}} : std::nullopt;
}

/// As kstrtou16() with base 0 reads it.
[[nodiscard]] std::optional<std::uint16_t> number_of(std::string_view text) {
  constexpr int kHexadecimal = 16;
  constexpr int kOctal = 8;
  constexpr int kDecimal = 10;
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  int base = kDecimal;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = kHexadecimal;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.starts_with('0')) {
    base = kOctal;
    text.remove_prefix(1);
  }
  std::uint16_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, base);
  return error == std::errc{} && end == last ? std::optional{number} : std::nullopt;
}

[[nodiscard]] std::expected<FunctionWrite, WriteFault> read_count(const DeviceView& device,
                                                                  std::string_view text) {
  const auto number = number_of(text);
  if (!number) {
    return std::unexpected(WriteFault::BadText);
  }
  if (*number > device.sriov->total) {
    return std::unexpected(WriteFault::TooMany);
  }
  const std::size_t has = device.sriov->functions.size();
  if (*number != 0 && has != 0 && *number != has) {
    return std::unexpected(WriteFault::HasOthers);
  }
  return FunctionWrite{.what = What::Count, .device = device.index, .count = *number};
}

/// `name` is that of a file of a function, as `0/node`.
[[nodiscard]] std::expected<FunctionWrite, WriteFault> read_of_function(const DeviceView& device,
                                                                        std::string_view name,
                                                                        std::string_view text) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  const auto number = number_of(name.substr(0, slash));
  const std::string_view file = name.substr(std::min(slash + 1, name.size()));
  const auto row =
      std::ranges::find(kFunctionFiles, file, &decltype(kFunctionFiles)::value_type::first);
  if (!number || *number >= device.sriov->functions.size() || row == kFunctionFiles.end()) {
    return std::unexpected(WriteFault::NoSuchFile);
  }
  FunctionWrite write{.what = row->second, .device = device.index, .function = *number};
  if (write.what == What::Policy) {
    const auto policy = verbs::port_policy_of(text);
    write.policy = policy.value_or(write.policy);
    return policy ? std::expected<FunctionWrite, WriteFault>{write}
                  : std::unexpected(WriteFault::BadText);
  }
  const auto guid = guid_of(text);
  write.guid = guid.value_or(Guid{});
  return guid ? std::expected<FunctionWrite, WriteFault>{write}
              : std::unexpected(WriteFault::BadText);
}

void add_device(const DeviceView& device, FunctionTree& tree) {
  const std::string folder = fmt::format("{}/{}", device.name, kFolder);
  tree.folders.push_back(device.name);
  tree.folders.push_back(folder);
  tree.files.push_back({.path = fmt::format("{}/{}", device.name, kCountFile),
                        .content = fmt::format("{}\n", device.sriov->functions.size()),
                        .is_writable = true});
  tree.files.push_back({.path = fmt::format("{}/{}", device.name, kTotalFile),
                        .content = fmt::format("{}\n", device.sriov->total)});
  for (std::size_t i = 0; i < device.sriov->functions.size(); ++i) {
    const std::string function = fmt::format("{}/{}", folder, i);
    tree.folders.push_back(function);
    for (const auto& [name, what] : kFunctionFiles) {
      tree.files.push_back({.path = fmt::format("{}/{}", function, name),
                            .content = content_of(what, device.sriov->functions[i]) + '\n',
                            .is_writable = true});
    }
  }
}

}  // namespace

FunctionTree function_tree(const HostView& host) {
  FunctionTree tree;
  for (const DeviceView& device : host.devices) {
    if (device.sriov) {
      add_device(device, tree);
    }
  }
  return tree;
}

std::vector<std::string_view> function_file_names() { return {kFolder, kCountFile, kTotalFile}; }

std::expected<FunctionWrite, WriteFault> read_write(const HostView& host, std::string_view path,
                                                    std::string_view text) {
  const std::size_t slash = std::min(path.find('/'), path.size());
  const auto device = std::ranges::find(host.devices, path.substr(0, slash), &DeviceView::name);
  if (device == host.devices.end() || !device->sriov || slash == path.size()) {
    return std::unexpected(WriteFault::NoSuchFile);
  }
  if (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  std::string_view name = path.substr(slash + 1);
  if (name == kCountFile) {
    return read_count(*device, text);
  }
  if (name == kTotalFile) {
    return std::unexpected(WriteFault::ReadOnly);
  }
  if (!name.starts_with(kFolder) || !name.substr(kFolder.size()).starts_with('/')) {
    return std::unexpected(WriteFault::NoSuchFile);
  }
  name.remove_prefix(kFolder.size() + 1);
  return read_of_function(*device, name, text);
}

}  // namespace weft::host_view
