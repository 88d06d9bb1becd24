using System.Collections.Generic;

namespace Acme
{
  class Token
  {
    public string Text { get { return ""; } }
    public Token Next { get { return this; } }
  }

  class Value : Token
  {
  }

  static class TokenExtensions
  {
    public static bool IsName(this Token token)
    {
      return token.Next.IsLast();
    }

    public static bool IsLast(this Token token)
    {
      return false;
    }
  }

  static class TextExtensions
  {
    public static string Quoted(this string text)
    {
      return text;
    }

    public static T Head<T>(this IEnumerable<T> items)
    {
      return default(T);
    }
  }

  static class Other
  {
    public static bool IsLast(this Other other)
    {
      return true;
    }

    public static int Empty(this int number)
    {
      return number;
    }
  }
}
