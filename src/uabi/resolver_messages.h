#pragma once

// A host's resolver, which shows the paths that it knows (sa/published_paths.h) to the host's
// kernel side, which is the daemon, and to the host's programs.

#include <cstdint>
#include <string>

namespace weft::uabi {

/// Of a resolver that may administer the host's network: the daemon looks for paths in this memory
/// before it asks, until the connection ends. One resolver a host does. Descriptor: the memory,
/// sealed against another size alone; the daemon seals it against other writers. Answered by an
/// empty Text.
struct PublishPaths {
  std::uint32_t version{};
  std::string host;
};

/// Of any program: where the host's resolver shows its paths. Answered by PublishedPaths, or
/// Refused: no resolver does.
struct AskPublishedPaths {
  std::uint32_t version{};
  std::string host;
};

/// Descriptor: the memory, to be read.
struct PublishedPaths {};

}  // namespace weft::uabi
