// Hands each file of the folders and files named to the entry point of a fuzzer, so that what
// fuzzing once found is tried by every compiler and sanitizer.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// In libFuzzer's place: mutators of inputs are linked, and not called.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
std::size_t LLVMFuzzerMutate(std::uint8_t* /*data*/, std::size_t size, std::size_t /*most*/) {
  return size;
}

namespace {

std::size_t replayed = 0;

void replay(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
  const std::vector<std::uint8_t> input{bytes.begin(), bytes.end()};
  std::fprintf(stderr, "%s\n", path.c_str());  // the last one named is the one that ended it
  LLVMFuzzerTestOneInput(input.data(), input.size());
  ++replayed;
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (std::filesystem::is_directory(arguments[i])) {
      for (const auto& entry : std::filesystem::directory_iterator{arguments[i]}) {
        replay(entry.path());
      }
    } else {
      replay(arguments[i]);
    }
  }
  std::printf("%zu inputs\n", replayed);
  return replayed == 0 ? 1 : 0;
}
