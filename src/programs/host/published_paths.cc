#include "programs/host/published_paths.h"

#include <array>

#include "programs/host/daemon_request.h"
#include "uabi/messages.h"

namespace weft::programs {
namespace {

using sa::PublishedLayout;

}  // namespace

Result<ShownPaths> ShownPaths::show() {
  const auto file = os::create_sealable_memory("weft-resolver-paths", PublishedLayout::kBytes);
  if (!file) {
    return std::unexpected(file.error());
  }
  auto memory = os::map_shared(*file, os::Protection::ReadWrite, PublishedLayout::kBytes,
                               PublishedLayout::kBytes);
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  auto socket = connect_to_daemon();
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  const auto answer =
      ask_daemon(*socket, uabi::PublishPaths{.version = uabi::kVersion, .host = own_host()},
                 std::array{file->get()});
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return ShownPaths{*std::move(socket), *std::move(memory)};
}

Result<ResolversPaths> ResolversPaths::open() {
  const auto socket = connect_to_daemon();
  if (!socket) {
    return std::unexpected(socket.error());
  }
  const auto answer =
      ask_daemon(*socket, uabi::AskPublishedPaths{.version = uabi::kVersion, .host = own_host()});
  if (!answer) {
    return std::unexpected(answer.error());
  }
  if (!answer->message.holds<uabi::PublishedPaths>()) {
    return fail(ErrorCode::Io, "the fabric's daemon answers something else");
  }
  auto memory = os::map_shared(answer->descriptors.front(), os::Protection::ReadOnly,
                               PublishedLayout::kBytes, PublishedLayout::kBytes);
  if (!memory) {
    return std::unexpected(std::move(memory.error()));
  }
  return ResolversPaths{*std::move(memory)};
}

}  // namespace weft::programs
