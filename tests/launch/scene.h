// A small world for tests of the real program: a temporary folder with text, a token store, a trained run and a case,
// and a way to run a shell command in it. Whatever lies outside of its folder scratch/ must stay as it is, byte by
// byte.
#pragma once

#include <map>
#include <string>

namespace heddle::testing {

struct Outcome {
  int status = 0;      ///< of the shell; 124: the limit of 60 s was reached, 128 + n: ended by signal n
  std::string output;  ///< stdout and stderr
};

class Scene {
 public:
  /// Makes, with the program itself:
  ///   text/a.txt       200 short documents, parted by blank lines
  ///   store.h5         their bytes as tokens, with a validation part
  ///   whole.h5         the same without a validation part
  ///   other.h5         a store of other text
  ///   small.ini        a very small model and three steps over store.h5
  ///   run/             a finished run of it
  ///   no_moment.h5     its checkpoint without the second moment of one tensor
  ///   case/            a copy of the golden case loom_r1
  ///   changed/         the same with one logit changed
  ///   no_forward/, no_train/   the same without that group
  ///   family/          a copy of the golden case moe_top1_softmax_r3
  ///   changed_family/  the same with one logit changed
  ///   extra/           the same with /grads/foo; extra_final/ with /params_final/foo
  ///   no_tensor/       the same without one tensor of /params_step1; no_gradient/ without that gradient
  ///   no_loops/        the same without /train/loops
  ///   loops_0/, loops_-1/, loops_2000/   the same with that as the first loop count of training and of /eval
  /// Throws std::runtime_error with the program's output when that fails.
  Scene();
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  /// Runs the command in the folder, at most 60 s, with $H the program and $MPIRUN the launcher; empties scratch/
  /// first.
  Outcome run(const std::string& command) const;

  std::string path(const std::string& name) const { return root_ + "/" + name; }
  /// File -> content of everything outside of scratch/.
  std::map<std::string, std::string> content() const;

 private:
  std::string root_;
};

}  // namespace heddle::testing
