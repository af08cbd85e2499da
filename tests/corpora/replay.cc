// Hands each input of the archives (archive.h), folders and files named to the entry point of a
// fuzzer, so that what fuzzing once found is tried by every compiler and sanitizer.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// In libFuzzer's place: mutators of inputs are linked, and not called.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
std::size_t LLVMFuzzerMutate(std::uint8_t* /*data*/, std::size_t size, std::size_t /*most*/) {
  return size;
}

namespace {

std::size_t replayed = 0;

void replay(const std::string& name, const std::vector<std::uint8_t>& input) {
  std::fprintf(stderr, "%s\n", name.c_str());  // the last one named is the one that ended it
  LLVMFuzzerTestOneInput(input.data(), input.size());
  ++replayed;
}

std::vector<std::uint8_t> octets_of(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
  return {bytes.begin(), bytes.end()};
}

/// False: it is damaged.
bool replay_archive(const std::filesystem::path& path) {
  const auto inputs = weft::corpora::read_archive(octets_of(path));
  if (!inputs) {
    std::fprintf(stderr, "%s is no archive of inputs that are stored whole\n", path.c_str());
    return false;
  }
  for (const weft::corpora::Input& input : *inputs) {
    replay(path.string() + ": " + input.name, input.octets);
  }
  return true;
}

bool replay_all(const std::filesystem::path& path) {
  if (path.extension() == ".zip") {
    return replay_archive(path);
  }
  if (!std::filesystem::is_directory(path)) {
    replay(path, octets_of(path));
    return true;
  }
  for (const auto& entry : std::filesystem::directory_iterator{path}) {
    replay(entry.path(), octets_of(entry.path()));
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  bool is_whole = true;
  for (int i = 1; i < count; ++i) {
    is_whole = replay_all(arguments[i]) && is_whole;
  }
  std::printf("%zu inputs\n", replayed);
  return replayed == 0 || !is_whole ? 1 : 0;
}
