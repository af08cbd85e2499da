#include "wire/local_service/path_data.h"

namespace weft::wire::local_service {
namespace {

struct Head {
  std::uint32_t flags{};
  std::uint32_t reserved{};
  using Fields = NativeFields<&Head::flags, &Head::reserved>;
};
static_assert(Head::Fields::kBytes + kSizeOf<PathRecord> == kPathDataBytes);

}  // namespace

void put_path_data(const PathData& data, std::vector<std::byte>& out) {
  Head::Fields::put(Head{.flags = data.flags}, out);
  const auto packed = pack(data.path);
  out.insert(out.end(), packed.begin(), packed.end());
}

std::optional<PathData> take_path_data(ByteSpan octets) {
  const auto head = Head::Fields::take<Head>(octets);
  if (!head || octets.size() < kPathDataBytes) {
    return std::nullopt;
  }
  const auto path = parse<PathRecord>(octets.subspan(Head::Fields::kBytes));
  if (!path) {
    return std::nullopt;
  }
  return PathData{.flags = head->flags, .path = *path};
}

}  // namespace weft::wire::local_service
